import type { SealedColumn } from '../../db/sealed.ts'
import { sql } from '../../db/sql.ts'

export const webhookSecrets: SealedColumn = {
  name: 'webhook secrets',
  table: sql`svc.webhooks`,
  id: sql`id`,
  idType: sql`uuid`,
  sealed: sql`secret`,
  store: (text) => sql`secret = ${text}`,
  context: (webhookId) => `webhook ${webhookId}`,
}
