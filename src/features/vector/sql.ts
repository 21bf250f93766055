import type { Column } from '../../db/schema/snapshot.ts'
import { type Sql, sql } from '../../db/sql.ts'

/** Indexes over vectors, with their table, schema and method. */
const VECTOR_INDEX = sql`pg_catalog.pg_index i
  join pg_catalog.pg_class c on c.oid = i.indexrelid
  join pg_catalog.pg_am m on m.oid = c.relam and m.amname in ('hnsw', 'ivfflat')
  join pg_catalog.pg_class t on t.oid = i.indrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace`

export const allVectorIndexes = (schemas: readonly string[]): Sql => sql`
  select json_build_object('indexes', coalesce(json_agg(json_build_object('name', c.relname, 'schema', n.nspname,
    'table', t.relname, 'method', m.amname, 'definition', pg_get_indexdef(i.indexrelid))
    order by n.nspname, t.relname, c.relname), '[]'))::text
  from ${VECTOR_INDEX} where i.indisvalid and n.nspname = any(${schemas}::text[])`

/** In the order of the exposed schemas. */
export const schemaOfVectorIndex = (name: string, schemas: readonly string[]): Sql => sql`
  select n.nspname from ${VECTOR_INDEX}
  where c.relname = ${name} and n.nspname = any(${schemas}::text[])
  order by array_position(${schemas}::text[], n.nspname::text) limit 1`

/** Whether the index `i` is on this column alone, with these operators. */
export const hasOperators = (column: Column, method: string, operators: string): Sql => sql`
  i.indnkeyatts = 1 and i.indpred is null
  and exists (select from pg_catalog.pg_attribute a
    where a.attrelid = i.indrelid and a.attnum = i.indkey[0] and a.attname = ${column.name})
  and exists (select from pg_catalog.pg_opclass o join pg_catalog.pg_am m on m.oid = o.opcmethod
    where o.oid = i.indclass[0] and o.opcname = ${operators} and m.amname = ${method})`
