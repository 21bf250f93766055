import { type Sql, sql } from '../../db/sql.ts'

/** Foreign keys delete everything that belongs to the user. */
export const deleteUser = (id: string): Sql => sql`
  with gone as (delete from svc.users where id = ${id}::uuid returning id)
  select svc.revoke('user', id::text) from gone`

/** `metadata`: JSON text of an object. */
export const setMetadata = (id: string, metadata: string): Sql =>
  sql`update svc.users set metadata = ${metadata}::jsonb, updated_at = now() where id = ${id}::uuid`

/** Links in mails to the former address end with it; tokens that name it are read again from the account. */
export const setEmail = (id: string, email: string): Sql => sql`
  with changed as (
    update svc.users set email = ${email}, email_verified_at = now(), updated_at = now() where id = ${id}::uuid
  ), mailed as (delete from svc.mail_tokens where user_id = ${id}::uuid and purpose <> 'email_revert')
  select svc.revoke('user', ${id})`

/** Links to addresses that the account had later: who takes it back to an earlier one says that the changes since were not theirs. */
export const endRevertsSince = (id: string, since: string): Sql => sql`
  delete from svc.mail_tokens where user_id = ${id}::uuid and purpose = 'email_revert'
    and expires_at - interval '1 day' >= ${since}::timestamptz`

export const dropPassword = (id: string): Sql =>
  sql`update svc.users set password_hash = null, updated_at = now() where id = ${id}::uuid`
