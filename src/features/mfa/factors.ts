import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { type FactorMethod, MFA_METHODS } from './methods.ts'
import * as q from './sql.ts'

type Listed = { id: string; method: FactorMethod; phone: string | null; email: string | null }

/** Recognisable for the owner, useless to someone who stole the password. */
const maskPhone = (phone: string): string => `***${phone.slice(-4)}`
const maskEmail = (email: string): string => {
  const at = email.lastIndexOf('@')
  return `${[...email][0] ?? ''}***${email.slice(at)}`
}

/** The second factors that a user can choose from. */
export async function listFactors(db: Db, userId: string) {
  type Row = { factors: Listed[]; webauthn: number; backup_codes: number }
  const [row] = await db.rows<Row>(SYSTEM, q.selectFactors(userId))
  const factors = (row?.factors ?? []).map(({ id, method, phone, email }) => ({
    id,
    method,
    label: MFA_METHODS[method].label,
    ...(method === 'sms' && phone !== null && { phone: maskPhone(phone) }),
    ...(method === 'email' && email !== null && { email: maskEmail(email) }),
  }))
  return { factors, webauthn: row?.webauthn ?? 0, backup_codes: row?.backup_codes ?? 0 }
}
