import type { SealedColumn } from '../../../../db/sealed.ts'
import { sql } from '../../../../db/sql.ts'

export const totpSecrets: SealedColumn = {
  name: 'TOTP secrets',
  table: sql`svc.mfa_factors`,
  id: sql`id`,
  idType: sql`uuid`,
  sealed: sql`secret`,
  store: (text) => sql`secret = ${text}`,
  context: (factorId) => `totp ${factorId}`,
}
