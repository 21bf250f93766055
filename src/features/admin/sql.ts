import { EMPTY, join, type Sql, sql } from '../../db/sql.ts'

const PASSWORD_KEY = 'admin.password'

export const passwordHash = (): Sql => sql`select value->>'hash' from svc.settings where key = ${PASSWORD_KEY}`

/** The first of several starting processes wins. */
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
 * A token is made only while the password it was bought with holds. The row lock makes a password change wait for
 * this statement, or this statement for the change, so no token slips past the deletion.
 */
export const insertToken = (tokenHash: string, seconds: number, boughtWith: string): Sql => sql`
  with password as (
    select from svc.settings where key = ${PASSWORD_KEY} and value->>'hash' = ${boughtWith} for share
  )
  insert into svc.admin_tokens (token_hash, expires_at)
  select ${tokenHash}, now() + make_interval(secs => ${seconds}) from password`

export const findToken = (tokenHash: string): Sql => sql`
  select id::text as id, extract(epoch from expires_at)::float8 as "expiresAt"
  from svc.admin_tokens where token_hash = ${tokenHash} and expires_at > now()`

export const endToken = (tokenHash: string): Sql => sql`
  with gone as (delete from svc.admin_tokens where token_hash = ${tokenHash} returning id)
  select svc.revoke('admin', id::text) from gone`

export const forgetExpiredTokens = (): Sql => sql`delete from svc.admin_tokens where expires_at < now()`

export const endBackend = (pid: number): Sql => sql`select pg_catalog.pg_terminate_backend(${pid}::int)`

export const forgetOldAudit = (days: number): Sql => sql`
  delete from svc.audit_log where at < now() - make_interval(days => ${days}::int)`

export type AuditFilter = {
  table?: string
  userId?: string
  operation?: string
  action?: string
  from?: Date
  /** `until`: up to but not including; `to`: included. */
  to?: Date
  until?: Date
  limit: number
  offset: number
}

/** One JSON text: `{items, count, limit, offset}`. Absent facts are left out of an item, its values keep their nulls. */
export function selectAudit(filter: AuditFilter): Sql {
  const conditions: Sql[] = []
  if (filter.table !== undefined) conditions.push(sql`table_name = ${filter.table}`)
  if (filter.userId !== undefined) conditions.push(sql`user_id = ${filter.userId}::uuid`)
  if (filter.operation !== undefined) conditions.push(sql`operation = ${filter.operation}`)
  if (filter.action !== undefined) conditions.push(sql`action = ${filter.action}`)
  if (filter.from !== undefined) conditions.push(sql`at >= ${filter.from}`)
  if (filter.to !== undefined) conditions.push(sql`at <= ${filter.to}`)
  if (filter.until !== undefined) conditions.push(sql`at < ${filter.until}`)
  const where = conditions.length > 0 ? sql` where ${join(conditions, sql` and `)}` : EMPTY
  return sql`
    with found as (
      select * from svc.audit_log${where} order by at desc, seq desc limit ${filter.limit} offset ${filter.offset}
    )
    select json_build_object(
      'items', coalesce(json_agg(
        jsonb_strip_nulls(jsonb_build_object(
          'id', id, 'timestamp', to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
          'actor', actor, 'action', action, 'target', target, 'user_id', user_id, 'api_key_id', api_key_id,
          'table_name', table_name, 'record_id', record_id, 'operation', operation, 'ip_address', ip_address))
        || case when old_values is null then '{}' else jsonb_build_object('old_values', old_values) end
        || case when new_values is null then '{}' else jsonb_build_object('new_values', new_values) end
        order by at desc, seq desc), '[]'),
      'count', count(*), 'limit', ${filter.limit}::int, 'offset', ${filter.offset}::bigint)::text
    from found`
}
