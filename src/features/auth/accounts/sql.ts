import { type Sql, sql } from '../../../db/sql.ts'

export const userJson = (id: string): Sql =>
  sql`select svc.user_json(u)::text from svc.users u where u.id = ${id}::uuid`

export const insertUser = (u: {
  id: string
  email?: string
  phone?: string
  passwordHash?: string
  emailVerified?: boolean
  isAnonymous?: boolean
}): Sql => sql`
  insert into svc.users (id, email, phone, password_hash, email_verified_at, is_anonymous)
  values (${u.id}::uuid, ${u.email ?? null}, ${u.phone ?? null}, ${u.passwordHash ?? null},
    case when ${u.emailVerified ?? false}::boolean then now() end, ${u.isAnonymous ?? false}::boolean)`

/** The guard is in the WHERE clause: of two links only the first finds an anonymous account. */
export const linkAnonymous = (
  id: string,
  to: { email?: string | undefined; passwordHash?: string; emailVerified: boolean },
): Sql => sql`
  update svc.users
  set email = ${to.email ?? null}, password_hash = ${to.passwordHash ?? null}, is_anonymous = false,
    email_verified_at = case when ${to.emailVerified}::boolean then now() end, linked_at = now(), updated_at = now()
  where id = ${id}::uuid and is_anonymous
  returning id::text`

/** Everything that hangs on a user goes with it, by its foreign keys. */
export const deleteUser = (id: string): Sql => sql`
  with gone as (delete from svc.users where id = ${id}::uuid returning id)
  select svc.revoke('user', id::text) from gone`

export const idByEmail = (email: string): Sql => sql`select id::text from svc.users where email = ${email}`

export type Account = { email: string; phone: string }

/**
 * Whatever a user does about second factors happens one after the other, and never beside a change of the account,
 * such as a reset that ends all sessions.
 */
export const lockAccount = (userId: string): Sql => sql`
  select coalesce(email, '') as email, coalesce(phone, '') as phone
  from svc.users where id = ${userId}::uuid for no key update`
