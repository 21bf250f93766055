import { type Sql, sql } from '../../db/sql.ts'

/** Indexes that serve searches, with their method. */
const SEARCH_INDEX = sql`(
  select i.indexrelid, i.indisvalid, c.relname::text as name, n.nspname::text as schema, t.relname::text as "table",
    d.definition,
    case when d.definition like '% USING gin (svc.search_vector(%' then 'fulltext'
      when d.definition like '% USING gin ("left"(%gin_trgm_ops%' then 'trigram' end as method
  from pg_catalog.pg_index i
  join pg_catalog.pg_class c on c.oid = i.indexrelid
  join pg_catalog.pg_class t on t.oid = i.indrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_am m on m.oid = c.relam and m.amname = 'gin'
  cross join lateral pg_catalog.pg_get_indexdef(i.indexrelid) as d(definition)
) as x`

const exposed = (schemas: readonly string[]): Sql => sql`x.method is not null and x.schema = any(${schemas}::text[])`

export const allTextIndexes = (schemas: readonly string[]): Sql => sql`
  select json_build_object(
    'indexes', coalesce((
      select json_agg(json_build_object('name', x.name, 'schema', x.schema, 'table', x."table", 'method', x.method,
        'definition', x.definition) order by x.schema, x."table", x.name)
      from ${SEARCH_INDEX} where x.indisvalid and ${exposed(schemas)}), '[]'),
    'building', coalesce((
      select json_agg(json_build_object('name', x.name, 'table', x."table", 'phase', p.phase,
        'done', greatest(p.tuples_done, p.blocks_done), 'total', greatest(p.tuples_total, p.blocks_total)) order by x.name)
      from pg_catalog.pg_stat_progress_create_index p join ${SEARCH_INDEX} on x.indexrelid = p.index_relid
      where p.datname = pg_catalog.current_database() and ${exposed(schemas)}), '[]'))::text`

/** In the order of the exposed schemas. */
export const schemaOfTextIndex = (name: string, schemas: readonly string[]): Sql => sql`
  select x.schema from ${SEARCH_INDEX} where x.name = ${name} and ${exposed(schemas)}
  order by array_position(${schemas}::text[], x.schema) limit 1`
