import { type Sql, sql } from '../../db/sql.ts'

const PASSWORD_KEY = 'admin.password'

export const passwordHash = (): Sql => sql`select value->>'hash' from svc.settings where key = ${PASSWORD_KEY}`

/** If several processes start at once, the first one's hash is kept. */
export const insertPasswordHash = (hash: string): Sql => sql`
  insert into svc.settings (key, value) values (${PASSWORD_KEY}, jsonb_build_object('hash', ${hash}::text))
  on conflict (key) do nothing`

/** Replaces the hash only while it is still `previous`. */
export const replacePasswordHash = (previous: string | null, hash: string): Sql => sql`
  insert into svc.settings (key, value) values (${PASSWORD_KEY}, jsonb_build_object('hash', ${hash}::text))
  on conflict (key) do update set value = excluded.value, updated_at = now()
  where svc.settings.value->>'hash' is not distinct from ${previous}::text`

export const endAllTokens = (): Sql => sql`
  with gone as (delete from svc.admin_tokens returning id)
  select svc.revoke('admin', id::text) from gone`

/**
 * Inserts nothing if the password was changed since it was verified. The row lock orders this statement and a password
 * change, so no token outlives the deletion of all tokens.
 */
export const insertToken = (
  tokenHash: string,
  seconds: number,
  verifiedHash: string,
  via: 'password' | 'machine',
): Sql => sql`
  with password as (
    select from svc.settings where key = ${PASSWORD_KEY} and value->>'hash' = ${verifiedHash} for share
  )
  insert into svc.admin_tokens (token_hash, expires_at, via)
  select ${tokenHash}, now() + make_interval(secs => ${seconds}), ${via} from password`

export const findToken = (tokenHash: string): Sql => sql`
  select t.id::text as id, extract(epoch from t.expires_at)::float8 as "expiresAt", t.via, t.client, a.id::text as "adminId", a.email, a.role,
    extract(epoch from t.second_factor_at)::float8 as "secondFactorAt"
  from svc.admin_tokens t left join svc.admins a on a.id = t.admin_id
  where t.token_hash = ${tokenHash} and t.expires_at > now()`

export const endToken = (tokenHash: string): Sql => sql`
  with gone as (delete from svc.admin_tokens where token_hash = ${tokenHash} returning id)
  select svc.revoke('admin', id::text) from gone`

export const forgetExpiredTokens = (): Sql => sql`delete from svc.admin_tokens where expires_at < now()`

export const endBackend = (pid: number): Sql => sql`select pg_catalog.pg_terminate_backend(${pid}::int)`
