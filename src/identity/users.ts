import type { UserIdentity } from '../core/identity.ts'
import type { Tx } from '../db/db.ts'
import { type Sql, sql } from '../db/sql.ts'
import { invalidToken } from './errors.ts'

export const insertUser = (u: {
  id: string
  email?: string
  passwordHash?: string
  emailVerified?: boolean
  isAnonymous?: boolean
  /** JSON texts of objects. */
  metadata?: string
  appMetadata?: string
}): Sql => sql`
  insert into svc.users (id, email, password_hash, email_verified_at, is_anonymous, metadata, app_metadata)
  values (${u.id}::uuid, ${u.email ?? null}, ${u.passwordHash ?? null},
    case when ${u.emailVerified ?? false}::boolean then now() end, ${u.isAnonymous ?? false}::boolean,
    ${u.metadata ?? '{}'}::jsonb, ${u.appMetadata ?? '{}'}::jsonb)`

export const userJson = (id: string): Sql =>
  sql`select svc.user_json(u)::text from svc.users u where u.id = ${id}::uuid`

export const idByEmail = (email: string): Sql => sql`select id::text from svc.users where email = ${email}`

export type Account = { email: string; phone: string }

/**
 * Locks the account that a query names. Everything that opens, renews or ends access of an account does this first, in a
 * statement of its own, and then takes clients, grants, sessions and tokens in this order: so none of them waits for
 * another in a circle, what waited is served in turn, and the next statement sees what the last holder did.
 */
export const lockOwner = (userId: Sql): Sql => sql`select from svc.users where id = (${userId}) for no key update`

/** As `lockOwner`, in a transaction, for an account that must exist. */
export async function lockAccount(tx: Tx, userId: string, refused = invalidToken): Promise<Account> {
  const [account] = await tx.rows<Account>(sql`
    select coalesce(email, '') as email, coalesce(phone, '') as phone
    from svc.users where id = ${userId}::uuid for no key update`)
  if (!account) throw refused()
  return account
}

/**
 * As `lockAccount`, for a signed-in caller, whose session may have ended since the request was identified: what ended it
 * also ended the rights to what follows.
 */
export async function lockCaller(tx: Tx, user: UserIdentity): Promise<Account> {
  const account = await lockAccount(tx, user.id)
  const session = sql`select from svc.sessions where id = ${user.sessionId}::uuid and user_id = ${user.id}::uuid`
  if ((await tx.run(session)) === 0) throw invalidToken()
  return account
}

/** Ends all sessions, refresh tokens and pending second-factor sign-ins of a user. */
export const endSessionsOf = (userId: string): Sql => sql`
  with gone as (delete from svc.sessions where user_id = ${userId}::uuid),
  parked as (delete from svc.pending_logins where user_id = ${userId}::uuid),
  mailed as (delete from svc.mail_tokens where user_id = ${userId}::uuid and purpose in ('reset', 'email_change'))
  select svc.revoke('user', ${userId})`
