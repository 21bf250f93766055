import { type Sql, sql } from '../../sql.ts'

const mark = (label: Sql, rows: Sql): Sql => sql`
  select ${label} as part, pg_catalog.count(*)::text || ':' ||
    coalesce(pg_catalog.sum(pg_catalog.hashint8(x.xmin::text::pg_catalog.int8)::pg_catalog.int8), 0)::text as mark
  from ${rows}`

/**
 * A text that changes whenever an object of the snapshot is created, altered or dropped. Each catalogue row has the
 * transaction that wrote it, so a count and a sum of these suffice.
 */
export const fingerprintQuery = (schemas: readonly string[]): Sql => sql`
  with exposed as (
    select n.oid from pg_catalog.pg_namespace n where n.nspname::text = any(${schemas}::text[])
  ), relations as materialized (
    select c.oid from pg_catalog.pg_class c where c.relnamespace in (select oid from exposed)
  )
  select pg_catalog.string_agg(part || '=' || mark, ' ' order by part) from (
    ${mark(
      sql`'schema'`,
      sql`pg_catalog.pg_namespace x where x.oid in (select oid from exposed)
      or x.oid in (select o.oprnamespace from pg_catalog.pg_operator o where o.oid >= 16384)`,
    )}
    union all ${mark(sql`'table'`, sql`pg_catalog.pg_class x where x.oid in (select oid from relations)`)}
    union all ${mark(sql`'column'`, sql`pg_catalog.pg_attribute x where x.attrelid in (select oid from relations)`)}
    union all ${mark(sql`'default'`, sql`pg_catalog.pg_attrdef x where x.adrelid in (select oid from relations)`)}
    union all ${mark(sql`'constraint'`, sql`pg_catalog.pg_constraint x where x.contypid <> 0 or x.conrelid in (select oid from relations)`)}
    union all ${mark(sql`'index'`, sql`pg_catalog.pg_index x where x.indrelid in (select oid from relations)`)}
    union all ${mark(sql`'policy'`, sql`pg_catalog.pg_policy x where x.polrelid in (select oid from relations)`)}
    union all ${mark(sql`'trigger'`, sql`pg_catalog.pg_trigger x where x.tgrelid in (select oid from relations)`)}
    union all ${mark(sql`'rule'`, sql`pg_catalog.pg_rewrite x where x.ev_class in (select oid from relations)`)}
    union all ${mark(sql`'function'`, sql`pg_catalog.pg_proc x where x.pronamespace in (select oid from exposed)`)}
    union all ${mark(sql`'type'`, sql`pg_catalog.pg_type x where x.typrelid = 0 and x.typelem = 0 and x.oid >= 16384`)}
    union all ${mark(sql`'enum'`, sql`pg_catalog.pg_enum x`)}
    union all ${mark(sql`'comment'`, sql`pg_catalog.pg_description x where x.objoid >= 16384`)}
    union all ${mark(sql`'extension'`, sql`pg_catalog.pg_extension x`)}
    union all ${mark(sql`'membership'`, sql`pg_catalog.pg_auth_members x`)}
  ) marks`
