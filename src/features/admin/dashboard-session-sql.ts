import { rfc3339, type Sql, sql } from '../../db/sql.ts'

export const markDashboard = (tokenHash: string): Sql =>
  sql`update svc.admin_tokens set client = 'dashboard' where token_hash = ${tokenHash}`

/** With it go what it impersonates and the codes that it made. */
export const endTokenById = (id: string): Sql => sql`
  with gone as (delete from svc.admin_tokens where id = ${id}::uuid returning id)
  select svc.revoke('admin', id::text) from gone`

export const unlockedToken = (id: string): Sql =>
  sql`select true from svc.admin_tokens where id = ${id}::uuid and unlocked_until > now()`

export const unlockToken = (id: string, seconds: number): Sql => sql`
  update svc.admin_tokens set unlocked_until = now() + make_interval(secs => ${seconds})
  where id = ${id}::uuid and expires_at > now()
  returning ${rfc3339(sql`unlocked_until`)} as "unlockedUntil"`

export const forgetExpiredCodes: Sql = sql`delete from svc.admin_codes where expires_at < now()`

export const insertAdminCode = (codeHash: string, tokenId: string, seconds: number): Sql => sql`
  insert into svc.admin_codes (code_hash, admin_token_id, expires_at)
  select ${codeHash}, id, least(expires_at, now() + make_interval(secs => ${seconds}))
  from svc.admin_tokens where id = ${tokenId}::uuid and expires_at > now() for key share
  returning ${rfc3339(sql`expires_at`)} as "expiresAt"`

/**
 * A token like the one that made the code, which it does not outlive; only while that one is good. The code is spent in the
 * same statement, so that it is good once.
 */
export const spendAdminCode = (codeHash: string, tokenHash: string): Sql => sql`
  with spent as (
    delete from svc.admin_codes where code_hash = ${codeHash} returning admin_token_id, expires_at
  )
  insert into svc.admin_tokens (token_hash, expires_at, via, admin_id, second_factor_at, client)
  select ${tokenHash}, t.expires_at, t.via, t.admin_id, t.second_factor_at, 'dashboard'
  from spent join svc.admin_tokens t on t.id = spent.admin_token_id
  where spent.expires_at > now() and t.expires_at > now()`
