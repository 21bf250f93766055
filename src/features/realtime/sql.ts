import type { DatabaseSession } from '../../core/identity.ts'
import { operator } from '../../db/operators.ts'
import type { Column, Schema, Table } from '../../db/schema.ts'
import { COMMA, catalogueExpression, Ident, join, type Sql, sql } from '../../db/sql.ts'

/** Policies and filters are evaluated over a row that goes by its table's own name, as pg_get_expr writes it. */
export const rowAlias = (table: Table): Ident => new Ident(table.name)

/** A table and the snapshot it belongs to. */
export type Place = { readonly schema: Schema; readonly table: Table }

const isSpatial = (column: Column): boolean => column.isGeometry || column.isGeography

/** A logged image as a row of its table, under the table's name. */
function image({ schema, table }: Place, json: Sql): Sql {
  const columns = [...table.columns.values()]
  const spatial = columns.filter(isSpatial)
  if (spatial.length === 0) {
    return sql`pg_catalog.jsonb_populate_record(null::${table.ident}, ${json}) as ${rowAlias(table)}`
  }
  // GeoJSON does not say its reference system, so PostGIS would take another one than the column's.
  const base = join(
    columns.map((column) => (isSpatial(column) ? fromGeoJson(schema, column, json) : sql`null`)),
    COMMA,
  )
  const names = spatial.map((column) => column.name)
  return sql`pg_catalog.jsonb_populate_record(row(${base})::${table.ident}, (${json}) - ${names}::text[]) as ${rowAlias(table)}`
}

function fromGeoJson(schema: Schema, column: Column, json: Sql): Sql {
  const postGis = schema.postGIS?.schema ?? 'public'
  const geometry = sql`${new Ident(postGis, 'st_geomfromgeojson')}(nullif((${json}) -> ${column.name}::text, 'null')::text)`
  const placed = column.srid > 0 ? sql`${new Ident(postGis, 'st_setsrid')}(${geometry}, ${column.srid}::int)` : geometry
  return column.isGeography ? sql`${placed}::${column.castType}` : placed
}

const AND = sql` and `
const OR = sql` or `

export type PolicyState = { permissive: boolean; using: string }
/** Keyed by table oid; a table that is not there any more is missing. */
export type Survey = Record<string, { rls: boolean; policies: Record<string, PolicyState[]> }>

/**
 * Row security as it is now, not as the schema snapshot remembers it: a policy changed a moment ago already counts.
 * The search path of the server itself makes pg_get_expr qualify every name outside pg_catalog.
 */
export const surveyTables = (oids: readonly number[]): Sql => sql`
  select coalesce(json_object_agg(c.oid, json_build_object('rls', c.relrowsecurity, 'policies', (
    select coalesce(json_object_agg(r.rolname, (
      select coalesce(json_agg(json_build_object('permissive', p.polpermissive, 'using', pg_get_expr(p.polqual, p.polrelid))), '[]')
      from pg_policy p
      where p.polrelid = c.oid and p.polcmd in ('r', '*') and p.polqual is not null
        and (p.polroles @> '{0}' or exists (select from unnest(p.polroles) as o(oid) where pg_has_role(r.oid, o.oid, 'USAGE')))
    )), '{}')
    from pg_roles r where c.relrowsecurity and r.rolname in ('svc_anon', 'svc_authenticated')
  ))), '{}')::text
  from pg_class c where c.oid = any(${oids}::oid[])`

/** PostgreSQL's own rule: one permissive policy must hold, and every restrictive one; none at all means no. */
export function policyExpression(policies: readonly PolicyState[]): Sql {
  const of = (permissive: boolean): Sql[] =>
    policies
      .filter((policy) => policy.permissive === permissive)
      .map(({ using }) => sql`(${catalogueExpression(using)})`)
  const permissive = of(true)
  if (permissive.length === 0) return sql`false`
  return sql`(${join(permissive, OR)})${join(
    of(false).map((restrictive) => sql` and ${restrictive}`),
    sql``,
  )}`
}

const sameKey = (table: Table, a: Ident, b: Ident): Sql =>
  join(
    table.primaryKey.map((column) => sql`${a}.${column.ident} ${operator('=', column)} ${b}.${column.ident}`),
    AND,
  )

const LIVE = new Ident('svc_live')
const KEY = new Ident('svc_key')
const row = (table: Table, json: Sql): Sql => {
  const columns = join(
    table.primaryKey.map((column) => sql`${column.ident} ${column.castType}`),
    COMMA,
  )
  return sql`exists (select from ${table.ident} as ${LIVE}, pg_catalog.jsonb_to_record(${json}) as ${KEY}(${columns})
    where ${sameKey(table, LIVE, KEY)})`
}

/** `items`: [{n, k: key}]. The numbers of the rows that exist now, for the server's own eyes. */
export const presentRows = (table: Table, items: string): Sql => sql`
  select coalesce(pg_catalog.string_agg(e ->> 'n', ','), '')
  from pg_catalog.jsonb_array_elements(${items}::jsonb) e where ${row(table, sql`e -> 'k'`)}`

/**
 * `items`: [{n, k?: key of a row that exists, r?: new image, o?: old image}]. Answers `<n>b`, `<n>n` or `<n>o` for the
 * changes whose new and old row, only new row, or only old row the current role may see. The new row must be visible now,
 * and its image too: a row that came into sight later does not show what it held before. An image that its writer could
 * not write whole, for want of privileges on columns, cannot be asked.
 */
export const sightOf = (place: Place, policies: Sql, items: string): Sql => {
  const { table } = place
  const passes = (json: Sql): Sql => sql`coalesce((select ${policies} from ${image(place, json)}), false)`
  const isWhole = sql`svc_e -> 'r' ?& ${[...table.columns.keys()]}::text[]`
  const isLive = table.primaryKey.length > 0 ? row(table, sql`svc_e -> 'k'`) : sql`false`
  return answers(
    sql`case when ${has('k')} then case when ${isLive} then not (${isWhole}) or ${passes(sql`svc_e -> 'r'`)} else false end
             when ${has('r')} then ${passes(sql`svc_e -> 'r'`)} else false end`,
    sql`case when ${has('o')} then ${passes(sql`svc_e -> 'o'`)} else false end`,
    items,
  )
}

/** As sightOf, for a filter over the images: [{n, r?, o?}]. */
export const matchesOf = (place: Place, filter: Sql, items: string): Sql => {
  const matches = (name: 'r' | 'o'): Sql =>
    sql`case when ${has(name)} then coalesce((select ${filter} from ${image(place, sql`svc_e -> ${name}::text`)}), false) else false end`
  return answers(matches('r'), matches('o'), items)
}

const has = (name: string): Sql => sql`pg_catalog.jsonb_typeof(svc_e -> ${name}::text) = 'object'`

const answers = (now: Sql, old: Sql, items: string): Sql => sql`
  select coalesce(pg_catalog.string_agg(svc_v.n || case when not svc_v.old then 'n' when svc_v.new then 'b' else 'o' end, ','), '')
  from (
    select svc_e ->> 'n' as n, ${now} as new, ${old} as old
    from pg_catalog.jsonb_array_elements(${items}::jsonb) as svc_e
  ) svc_v where svc_v.new or svc_v.old`

/** Raises what the filter's literals would raise. */
export const filterOnNothing = (place: Place, filter: Sql): Sql =>
  sql`select (${filter})::text from ${image(place, sql`'{}'::jsonb`)}`

export const become = ({ userId, email, aal }: DatabaseSession): Sql => sql`
  select set_config('svc.user_id', ${userId}, true), set_config('svc.user_email', ${email}, true), set_config('svc.aal', ${aal}, true)`

/** `items`: [{n, r}]: the images without the columns the role may not read, as a JSON array of [n, text]. */
export const withoutColumns = (items: string, hidden: readonly string[]): Sql => sql`
  select coalesce(json_agg(json_build_array((e ->> 'n')::int, ((e -> 'r') - ${hidden}::text[])::text)), '[]')::text
  from jsonb_array_elements(${items}::jsonb) e`
