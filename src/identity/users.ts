import type { Tx } from '../db/db.ts'
import { type Sql, sql } from '../db/sql.ts'
import { invalidToken } from './errors.ts'

export const insertUser = (u: {
  id: string
  email?: string
  passwordHash?: string
  emailVerified?: boolean
  isAnonymous?: boolean
}): Sql => sql`
  insert into svc.users (id, email, password_hash, email_verified_at, is_anonymous)
  values (${u.id}::uuid, ${u.email ?? null}, ${u.passwordHash ?? null},
    case when ${u.emailVerified ?? false}::boolean then now() end, ${u.isAnonymous ?? false}::boolean)`

export const idByEmail = (email: string): Sql => sql`select id::text from svc.users where email = ${email}`

export type Account = { email: string; phone: string }

/**
 * Locks the account until the transaction ends, so that changes of second factors run one after another and never
 * concurrently with a change of the account, such as a password reset.
 */
export async function lockAccount(tx: Tx, userId: string, refused = invalidToken): Promise<Account> {
  const [account] = await tx.rows<Account>(sql`
    select coalesce(email, '') as email, coalesce(phone, '') as phone
    from svc.users where id = ${userId}::uuid for no key update`)
  if (!account) throw refused()
  return account
}

/** Ends all sessions, refresh tokens and pending second-factor sign-ins of a user. */
export const endSessionsOf = (userId: string): Sql => sql`
  with gone as (delete from svc.sessions where user_id = ${userId}::uuid),
  parked as (delete from svc.pending_logins where user_id = ${userId}::uuid),
  mailed as (delete from svc.mail_tokens where user_id = ${userId}::uuid and purpose = 'reset')
  select svc.revoke('user', ${userId})`
