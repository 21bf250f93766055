import { CALLER_SETTINGS, type DatabaseSession } from '../../../core/identity.ts'
import { type Change, type ChangeLog, idOf } from '../../../db/changes/log.ts'
import { operator } from '../../../db/schema/filter/operators.ts'
import { heldColumns, rowAlias, rowImage, type TableInSchema } from '../../../db/schema/row-image.ts'
import type { Table } from '../../../db/schema/snapshot.ts'
import { AND, Ident, join, type Sql, sql } from '../../../db/sql.ts'

export type PolicyState = { permissive: boolean; expression: string }
/** `anon`, `authenticated`: whether that role may read it. `definition`: of a virtual column. */
export type ColumnState = readonly [
  number: number,
  name: string,
  anon: boolean,
  authenticated: boolean,
  definition?: number | null,
]
/** Keyed by table oid; a table that is not there any more is missing. */
export type Survey = Record<
  string,
  {
    schema: string
    name: string
    columns: ColumnState[]
    rls: boolean
    policies: Record<string, PolicyState[]>
    asked: string[]
  }
>

/** Columns that the policies of table c read. A policy that reads the whole row depends on the table itself. */
const ASKED_COLUMNS = sql`(
  select coalesce(json_agg(distinct a.attname), '[]')
  from pg_policy p
  join pg_depend d on d.classid = 'pg_policy'::regclass and d.objid = p.oid
    and d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    and (a.attnum = d.refobjsubid or (d.refobjsubid = 0 and d.deptype = 'n'))
  where p.polrelid = c.oid)`

const mayRead = (role: Sql): Sql =>
  sql`coalesce(has_schema_privilege(${role}, c.relnamespace, 'USAGE') and has_column_privilege(${role}, c.oid, a.attnum, 'SELECT'), false)`

const COLUMNS = sql`(
  select coalesce(json_agg(json_build_array(a.attnum, a.attname, ${mayRead(sql`'svc_anon'::name`)}, ${mayRead(sql`'svc_authenticated'::name`)},
    case when a.attgenerated = 'v' then (select d.oid::int8 from pg_attrdef d where d.adrelid = a.attrelid and d.adnum = a.attnum) end)
    order by a.attnum), '[]')
  from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)`

/**
 * Rights and row security as they are now, not as the schema snapshot remembers them: a policy changed a moment ago already
 * counts.
 * The search path of the server itself makes pg_get_expr qualify every name outside pg_catalog.
 */
export const surveyTables = (oids: readonly number[]): Sql => sql`
  select coalesce(json_object_agg(c.oid, json_build_object('rls', c.relrowsecurity, 'policies', (
    select coalesce(json_object_agg(r.rolname, (
      select coalesce(json_agg(json_build_object('permissive', p.polpermissive, 'expression', pg_get_expr(p.polqual, p.polrelid))), '[]')
      from pg_policy p
      where p.polrelid = c.oid and p.polcmd in ('r', '*') and p.polqual is not null
        and (p.polroles @> '{0}' or exists (select from unnest(p.polroles) as o(oid) where pg_has_role(r.oid, o.oid, 'USAGE')))
    )), '{}')
    from pg_roles r where c.relrowsecurity and r.rolname in ('svc_anon', 'svc_authenticated')
  ), 'asked', ${ASKED_COLUMNS}, 'schema', n.nspname, 'name', c.relname, 'columns', ${COLUMNS})), '{}')::text
  from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = any(${oids}::oid[])`

/** A LoggedShape for each id; one that is not kept is missing. The id of a shape that was kept with the change is its digest. */
export const shapesWith = (ids: readonly string[]): Sql => sql`
  select coalesce(json_object_agg(s.id, json_build_object(
    'isCertain', s.id = hashtextextended(s.table_oid::text || row(s.schema_name, s.table_name, s.columns, s.key_columns)::text, 0)
      & 9223372036854775807,
    'columns', (select coalesce(json_agg(json_build_array(e -> 0, e -> 1)), '[]') from jsonb_array_elements(s.columns) e))), '{}')::text
  from (select distinct on (id) * from svc.change_shapes where id = any(${ids}::bigint[])) s`

const sameKey = (table: Table, a: Ident, b: Ident): Sql =>
  join(
    table.primaryKey.map((column) => sql`${a}.${column.ident} ${operator('=', column)} ${b}.${column.ident}`),
    AND,
  )

const LIVE = new Ident('svc_live')
const isLive = (table: Table): Sql =>
  table.primaryKey.length === 0
    ? sql`false`
    : sql`exists (select from ${table.ident} as ${LIVE} where ${sameKey(table, LIVE, rowAlias(table))})`

/** Rows of a table as one array literal in PostgreSQL's own notation, and the numbers of the changes they belong to. */
export type RowImages = { readonly numbers: readonly number[]; readonly array: string }
export const NO_ROWS: RowImages = { numbers: [], array: '{}' }

/** `live`: new rows that are there now. `partial`: such rows whose writer could not log every column. `gone`: new rows that are not there. */
export type Images = {
  readonly live: RowImages
  readonly partial: RowImages
  readonly gone: RowImages
  readonly old: RowImages
}

/** Names of then and of now, of the columns that stay. */
export type ColumnNames = ReadonlyMap<string, string>
/** By the id of a shape. Shapes whose images stay as they are are missing. */
export type NamesByShape = ReadonlyMap<string, ColumnNames>

/** An image `c.…` of a change under the names of now. */
function renamed(image: Sql, names: NamesByShape): Sql {
  if (names.size === 0) return image
  const text = JSON.stringify(
    Object.fromEntries([...names].map(([shape, pairs]) => [shape, Object.fromEntries(pairs)])),
  )
  const all = sql`${text}::pg_catalog.jsonb`
  return sql`case when ${all} ? c.shape::text and pg_catalog.jsonb_typeof(${image}) = 'object' then (
      select coalesce(pg_catalog.jsonb_object_agg(svc_name.value, ${image} -> svc_name.key), '{}')
      from pg_catalog.jsonb_each_text(${all} -> c.shape::text) as svc_name where ${image} ? svc_name.key
    ) else ${image} end`
}

export type LoggedImages = Pick<ChangeLog, 'imagesBetween'>

/** A change and its number in the batch. */
export type Numbered = { readonly n: number; readonly change: Change }

/** Changes `c` of a table as the log holds them, and their numbers `i.n`. The items are in the order of the log. */
function logged(log: LoggedImages, table: Table, items: readonly Numbered[]): Sql {
  const ids = items.map(({ change }) => idOf(change))
  const numbers = sql`pg_catalog.unnest(${items.map(({ n }) => n)}::int[]), pg_catalog.unnest(${ids}::bigint[])`
  const between = log.imagesBetween(ids[0] ?? '0', ids.at(-1) ?? '0', table)
  return sql`rows from (${numbers}) as i(n, id) join ${between} c on c.id = i.id`
}

/**
 * The images of a table's changes as rows, made once instead of once per subscriber. They are taken from the log itself: the
 * old ones are of no other use here. Under a login that reads all rows, on the search path of requests.
 */
export const imagesOf = (
  log: LoggedImages,
  at: TableInSchema,
  asked: readonly string[],
  items: readonly Numbered[],
  names: NamesByShape,
): Sql => {
  const { table } = at
  // Without the star it would be the column that is called like its table, where there is one.
  const row = sql`(${rowAlias(table)}.*)::${table.ident}`
  const needed = heldColumns(table, asked)
  const rows = (from: Sql): Sql =>
    sql`(select pg_catalog.json_build_object('numbers', coalesce(pg_catalog.array_agg(svc_n order by svc_n), '{}'),
      'array', coalesce(pg_catalog.array_agg(svc_row order by svc_n)::text, '{}')) from ${from})`
  return sql`
  with svc_item as materialized (
    select i.n as svc_n, case when c.action <> 'delete' then ${renamed(sql`c.record`, names)} end as r,
      ${renamed(sql`c.old_record`, names)} as o
    from ${logged(log, table, items)}
  ), svc_new as materialized (
    select svc_item.svc_n, ${row} as svc_row, svc_item.r ?& ${needed}::text[] as whole, ${isLive(table)} as live
    from svc_item, ${rowImage(at, sql`svc_item.r`)} where pg_catalog.jsonb_typeof(svc_item.r) = 'object'
  ), svc_old as materialized (
    select svc_item.svc_n, ${row} as svc_row
    from svc_item, ${rowImage(at, sql`svc_item.o`)} where pg_catalog.jsonb_typeof(svc_item.o) = 'object'
      and svc_item.o ?& ${needed}::text[]
  )
  select pg_catalog.json_build_object('live', ${rows(sql`svc_new where live and whole`)},
    'partial', ${rows(sql`svc_new where live and not whole`)}, 'gone', ${rows(sql`svc_new where not live and whole`)},
    'old', ${rows(sql`svc_old`)})::text`
}

/** One letter per row, in the order of the array: that of a boolean, or UNSEEN. */
const verdicts = (table: Table, rows: RowImages, verdict: Sql): Sql =>
  rows.numbers.length === 0
    ? sql`''`
    : sql`(select pg_catalog.array_agg(${verdict}) from pg_catalog.unnest(${rows.array}::${table.ident}[]) as ${rowAlias(table)})::text`

/** The image of a live row passes, and the row is not found: it is hidden, or has gone since the images were read. */
export const UNSEEN = 'u'

/**
 * What the current role may see, as four lists of letters for live, partial, gone and old. A new row must be visible now,
 * and its image must pass too: a row that was shown later does not show what it held before. An image that lacks a column
 * which the policies read cannot be asked: only the row itself can. A role that may not read the key cannot look for it.
 */
export function visibilityOf(table: Table, policies: Sql, images: Images, mayReadKey: boolean): Sql {
  const passes = sql`coalesce((${policies}), false)`
  // The image first: it is at hand, and most rows are not for most subscribers.
  const live = mayReadKey
    ? sql`case when not ${passes} then 'f' when ${isLive(table)} then 't' else ${UNSEEN} end`
    : passes
  const partial = mayReadKey ? isLive(table) : sql`false`
  return answers(table, images, { live, partial, gone: passes, old: passes })
}

/** As visibilityOf, for a filter over the images; the milliseconds it took follow. */
export function matchesOf(table: Table, filter: Sql, images: Images): Sql {
  const matches = sql`coalesce((${filter}), false)`
  const verdict = answers(table, images, { live: matches, partial: matches, gone: matches, old: matches })
  return sql`${verdict} || '|' || (extract(epoch from clock_timestamp() - statement_timestamp()) * 1000)::int`
}

const answers = (table: Table, images: Images, by: Record<keyof Images, Sql>): Sql => sql`
  select ${verdicts(table, images.live, by.live)} || '|' || ${verdicts(table, images.partial, by.partial)} || '|' ||
    ${verdicts(table, images.gone, by.gone)} || '|' || ${verdicts(table, images.old, by.old)}`

const MILLISECONDS = sql`(extract(epoch from clock_timestamp()) * 1000)::text`

/** Everything of a caller that a policy can read; returns the time. The actor of the log is that of the flight, so it is none of them. */
export const become = (session: DatabaseSession): Sql => {
  const fields = Object.entries(CALLER_SETTINGS) as [keyof typeof CALLER_SETTINGS, string][]
  const settings = fields.map(([field, setting]) => sql`set_config(${setting}, ${session[field]}, true)`)
  return sql`select ${MILLISECONDS}, ${join(settings)}, set_config('svc.actor', '', true), ${RENEWED}`
}

/** Of a database without code of others, two looks at settings that are not there. */
const RENEWED = sql`case when coalesce(current_setting('request.jwt.claims', true), current_setting('ayb.user_id', true)) is not null
  then svc.renew_dialect() end`

export const theTime: Sql = sql`select ${MILLISECONDS}`

/**
 * The same question follows for many identities. PostgreSQL would plan it anew for each, because it guesses that a plan for
 * the arrays at hand is better; planning costs more than answering.
 */
export const planOnce: Sql = sql`select set_config('plan_cache_mode', 'force_generic_plan', true)`

/** What stays of the records and keys, as a JSON array of [n, record, key]. */
export const whatStays = (log: LoggedImages, table: Table, items: readonly Numbered[], names: NamesByShape): Sql => sql`
  select coalesce(json_agg(json_build_array(i.n, (${renamed(sql`c.record`, names)})::text, (${renamed(sql`c.pk`, names)})::text)), '[]')::text
  from ${logged(log, table, items)}`
