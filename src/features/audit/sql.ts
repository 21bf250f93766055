import { MASK, SECRET_COLUMN } from '../../core/redact.ts'
import { EMPTY, join, type Sql, sql } from '../../db/sql.ts'
import type { RemoveSlice } from '../../db/sweep.ts'

export type AuditSettings = { all_tables: boolean; tables: readonly string[] }

/** Serialises processes that start at the same time. */
export const lockSettings: Sql = sql`lock table svc.audit_settings in share row exclusive mode`

export const currentSettings: Sql = sql`
  select all_tables, to_json(tables) as tables from svc.audit_settings order by id desc limit 1`

export const switchSettings = ({ all_tables: all, tables }: AuditSettings): Sql => sql`
  insert into svc.audit_settings (all_tables, tables) values (${all}, ${tables}::text[])`

/** Transaction ids restored from another cluster's dump count as older than every commit of this one. */
export const adoptSettings: Sql = sql`
  update svc.audit_settings set since = '1:1:' where pg_snapshot_xmax(since) > pg_snapshot_xmax(pg_current_snapshot())`

/** True also after auditing was switched off, because earlier commits may be read late. */
export const anyAudited: Sql = sql`exists (select from svc.audit_settings where all_tables or tables <> '{}')`

/** A row with the values of columns masked whose names suggest a secret. */
const masked = (image: Sql): Sql => sql`(
  select jsonb_object_agg(key, case when key ~* ${SECRET_COLUMN.source} then to_jsonb(${MASK}::text) else value end)
  from jsonb_each(${image}))`

/** The table's name in entries and settings: without schema if that is `public`. */
const NAME = sql`case c.schema_name when 'public' then '' else c.schema_name || '.' end || c.table_name`

/** Entries for the changes of the reader's batch. Writes that bypass the API are attributed to an administrator. */
export const auditedChanges: Sql = sql`
  insert into svc.audit_log (at, actor, action, target, user_id, api_key_id, admin, impersonated_by, table_name, record_id, operation, old_values, new_values)
  select c.at,
    case c.actor->>'kind' when 'user' then 'user' when 'key' then 'user' when 'admin' then 'admin' when 'system' then 'admin'
      else 'anonymous' end,
    'record.' || c.action, ${NAME},
    case c.actor->>'kind' when 'user' then (c.actor->>'id')::uuid when 'key' then (c.actor->>'userId')::uuid end,
    case when c.actor->>'kind' = 'key' and c.actor->>'id' ~ '^[0-9a-f-]{36}$' then (c.actor->>'id')::uuid end,
    coalesce((select a.email from svc.admins a where a.id::text = c.actor->>'adminId'), c.actor->>'adminId'),
    coalesce((select a.email from svc.admins a where a.id::text = c.actor->>'impersonatedBy'), c.actor->>'impersonatedBy'),
    c.table_name, ${masked(sql`c.pk`)},
    case c.action when 'create' then 'INSERT' when 'update' then 'UPDATE' else 'DELETE' end,
    ${masked(sql`c.old_record`)}, ${masked(sql`c.record`)}
  from batch c cross join lateral (
    select s.all_tables, s.tables from svc.audit_settings s where not pg_visible_in_snapshot(c.xid, s.since)
    order by s.id desc limit 1
  ) s
  where case when c.table_oid = 'svc.objects'::regclass then false else s.all_tables or c.table_name = any(s.tables) end or c.schema_name || '.' || c.table_name = any(s.tables)
  order by c.id`

/** Removes one slice, oldest first. */
export const oldAudit =
  (days: number): RemoveSlice =>
  (limit) =>
    sql`
    delete from svc.audit_log where id in (
      select id from svc.audit_log where at < now() - make_interval(days => ${days}::int)
      order by at limit ${limit}::int)`

/** `table` of any schema, or `schema.table`. */
function isTable(name: string): Sql {
  const dot = name.indexOf('.')
  if (dot === -1) return sql`table_name = ${name}`
  const target = name.startsWith('public.') ? name.slice(dot + 1) : name
  return sql`(table_name = ${name} or table_name = ${name.slice(dot + 1)} and target = ${target})`
}

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

/** One JSON text: `{items, count, limit, offset}`. Null fields are left out of an item; nulls inside its values are kept. */
export function selectAudit(filter: AuditFilter): Sql {
  const conditions: Sql[] = []
  if (filter.table !== undefined) conditions.push(isTable(filter.table))
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
          'actor', actor, 'action', action, 'target', target, 'user_id', user_id, 'api_key_id', api_key_id, 'admin', admin, 'impersonated_by', impersonated_by,
          'table_name', table_name, 'record_id', record_id, 'operation', operation, 'ip_address', ip_address))
        || case when old_values is null then '{}' else jsonb_build_object('old_values', old_values) end
        || case when new_values is null then '{}' else jsonb_build_object('new_values', new_values) end
        order by at desc, seq desc), '[]'),
      'count', count(*), 'limit', ${filter.limit}::int, 'offset', ${filter.offset}::bigint)::text
    from found`
}
