import { Ident, rfc3339, type Sql, sql } from '../../db/sql.ts'

export type RefreshMode = 'standard' | 'concurrent'
export const MODES: readonly RefreshMode[] = ['standard', 'concurrent']

const RECORD = sql`json_build_object('id', m.id, 'schemaName', m.schema_name, 'viewName', m.view_name,
  'refreshMode', m.refresh_mode, 'lastRefreshAt', ${rfc3339(sql`m.last_refresh_at`)},
  'lastRefreshDurationMs', m.last_refresh_duration_ms, 'lastRefreshStatus', m.last_refresh_status,
  'lastRefreshError', m.last_refresh_error, 'createdAt', ${rfc3339(sql`m.created_at`)}, 'updatedAt', ${rfc3339(sql`m.updated_at`)})`

export const allViews: Sql = sql`
  select json_build_object('items', coalesce(json_agg(${RECORD} order by m.schema_name, m.view_name), '[]'),
    'count', count(*))::text from svc.matviews m`

export const oneView = (id: string): Sql => sql`select ${RECORD}::text from svc.matviews m where m.id = ${id}::uuid`

/** Returns no row if the view is registered already. */
export const addView = (view: { schema: string; name: string }, mode: RefreshMode): Sql => sql`
  insert into svc.matviews as m (schema_name, view_name, refresh_mode) values (${view.schema}, ${view.name}, ${mode})
  on conflict (schema_name, view_name) do nothing returning ${RECORD}::text as record`

export const changeMode = (id: string, mode: RefreshMode): Sql => sql`
  update svc.matviews m set refresh_mode = ${mode}, updated_at = now() where m.id = ${id}::uuid returning ${RECORD}::text as record`

export const removeView = (id: string): Sql => sql`delete from svc.matviews where id = ${id}::uuid returning id`

export const modeOf = (schema: string, name: string): Sql =>
  sql`select refresh_mode as mode from svc.matviews where schema_name = ${schema} and view_name = ${name}`

/** REFRESH … CONCURRENTLY needs a unique index on plain columns over all rows. */
export const findView = (schema: string, name: string): Sql => sql`
  select c.oid::text as oid, n.nspname as schema, c.relname as name, c.relispopulated as "isPopulated",
    exists (select from pg_catalog.pg_index i where i.indrelid = c.oid and i.indisunique and i.indisvalid
      and i.indimmediate and i.indpred is null and i.indexprs is null) as "hasUniqueIndex"
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'm' and n.nspname = ${schema} and c.relname = ${name}`

export const lockRefresh = (oid: string): Sql => sql`select svc.lock_refresh(${oid}::oid)`

/** `schema` and `name` come from `findView`. */
export const refresh = (schema: string, name: string, mode: RefreshMode): Sql =>
  mode === 'concurrent'
    ? sql`refresh materialized view concurrently ${new Ident(schema, name)}`
    : sql`refresh materialized view ${new Ident(schema, name)}`

export const recordRefresh = (
  view: { schema: string; name: string },
  outcome: { durationMs: number; error: string | null },
): Sql => sql`
  update svc.matviews m set last_refresh_at = now(), last_refresh_duration_ms = ${outcome.durationMs}::int,
    last_refresh_status = ${outcome.error === null ? 'success' : 'error'}, last_refresh_error = ${outcome.error}::text,
    updated_at = now()
  where m.schema_name = ${view.schema} and m.view_name = ${view.name} returning ${RECORD}::text`
