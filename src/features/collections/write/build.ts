import type { Appender, ChangeAction } from '../../../db/changes/append.ts'
import { rowJson, rowJsonb } from '../../../db/schema/row-json.ts'
import type { Column, Schema, Table } from '../../../db/schema/snapshot.ts'
import { columnsFor, keyFor } from '../../../db/schema/viewer.ts'
import { COMMA, Ident, join, type Sql, sql } from '../../../db/sql.ts'
import { equals, keyIs } from '../list/build.ts'
import type { Place } from '../place.ts'
import { isSpatial } from './body.ts'

// Names inside our statements; columns are always qualified with one of them.
export const ROW = new Ident('svc_t')
export const INPUT = new Ident('svc_in')
export const MADE = new Ident('svc_made')
export const BEFORE = new Ident('svc_before')

/** One write: which columns, the JSON text of the client that holds their values, and who logs it. */
export type Write = { readonly columns: readonly Column[]; readonly body: string; readonly log: Appender }

/** Answers the new record as JSON text, or no row. */
export function buildCreate(place: Place, { columns, body, log }: Write): Sql {
  return sql`with ${MADE} as (${insert(place, columns, oneInput(columns, body))} returning ${outcome(place)})
    select ${MADE}.svc_json::text, ${logOne(place, log, 'create')} from ${MADE}`
}

/** Answers the whole updated record as JSON text, or no row. */
export function buildUpdate(place: Place, key: readonly string[], { columns, body, log }: Write): Sql {
  const { table } = place
  return sql`with ${BEFORE} as (
      select ${oldImage(place, log)} from ${table.ident} as ${ROW} where ${keyIs(table, ROW, key)} for no key update
    ), ${MADE} as (
      update ${table.ident} as ${ROW} set ${assignments(place.schema, columns)} from ${oneInput(columns, body)}, ${BEFORE}
      where ${sameKey(table)} returning ${outcome(place)}, ${BEFORE}.svc_old
    )
    select ${MADE}.svc_json::text, ${logOne(place, log, 'update')} from ${MADE}`
}

/** Answers one row if there was one to delete. */
export function buildDelete(place: Place, key: readonly string[], log: Appender): Sql {
  const { table } = place
  const where = keyIs(table, ROW, key)
  const deletion = isSeenWhole(place)
    ? sql`${MADE} as (delete from ${table.ident} as ${ROW} where ${where} returning ${outcome(place)}, ${image(place)} as svc_old)`
    : sql`${BEFORE} as (select ${oldImage(place, log)} from ${table.ident} as ${ROW} where ${where} for update),
      ${MADE} as (
        delete from ${table.ident} as ${ROW} using ${BEFORE} where ${sameKey(table)} returning ${outcome(place)}, ${BEFORE}.svc_old
      )`
  return sql`with ${deletion} select 1, ${logOne(place, log, 'delete')} from ${MADE}`
}

/** json_to_record with our column definitions: what a value means is decided by PostgreSQL's types. */
const oneInput = (columns: readonly Column[], body: string): Sql =>
  sql`pg_catalog.json_to_record(${body}::pg_catalog.json) as ${INPUT}(${definitions(columns)})`

export const definitions = (columns: readonly Column[]): Sql =>
  join(
    columns.map((column) => sql`${column.ident} ${isSpatial(column) ? JSON_TYPE : column.castType}`),
    COMMA,
  )

const JSON_TYPE = new Ident('pg_catalog', 'json')

export function insert({ schema, table }: Place, columns: readonly Column[], input: Sql): Sql {
  const names = join(
    columns.map(({ ident }) => sql`${ident}`),
    COMMA,
  )
  const values = join(
    columns.map((column) => inputValue(schema, column)),
    COMMA,
  )
  return sql`insert into ${table.ident} as ${ROW} (${names}) select ${values} from ${input}`
}

export const assignments = (schema: Schema, columns: readonly Column[]): Sql =>
  join(
    columns.map((column) => sql`${column.ident} = ${inputValue(schema, column)}`),
    COMMA,
  )

/** Coordinates are in the column's own reference system. */
function inputValue(schema: Schema, column: Column): Sql {
  const value = sql`${INPUT}.${column.ident}`
  if (!isSpatial(column)) return value
  const postGis = schema.postGIS?.schema ?? 'public'
  const geometry = sql`${new Ident(postGis, 'st_geomfromgeojson')}(${value}::text)`
  const placed =
    column.srid > 0 ? sql`${new Ident(postGis, 'st_setsrid')}(${geometry}, ${column.srid}::int4)` : geometry
  return column.isGeography ? sql`${placed}::${column.castType}` : placed
}

/** What RETURNING hands on: the record for the client, and its key. */
export function outcome({ schema, table, viewer }: Place): Sql {
  const key = keyFor(table, viewer.role).map(({ name, ident }) => sql`${name}::text, ${ROW}.${ident}`)
  return sql`${rowJson(schema, table, viewer.role, ROW)} as svc_json, pg_catalog.jsonb_build_object(${join(key, COMMA)}) as svc_pk`
}

/** The log keeps whole rows, also of writers who may not read every column: those are read again by the server. */
export const isSeenWhole = ({ table, viewer }: Place): boolean =>
  columnsFor(table, viewer.role).length === table.columns.size || keyFor(table, viewer.role).length === 0

export const image = ({ schema, table, viewer }: Place): Sql => rowJsonb(schema, table, viewer.role, ROW)

const oldKey = (i: number): Ident => new Ident(`svc_k${i}`)

/** Read under the lock that the change needs anyway, so it is the image that the change replaces. */
export function oldImage(place: Place, log: Appender): Sql {
  const { primaryKey } = place.table
  const keys = primaryKey.map((column, i) => sql`${ROW}.${column.ident} as ${oldKey(i)}`)
  const pk = primaryKey.map(({ name, ident }) => sql`${name}::text, ${ROW}.${ident}`)
  const old = isSeenWhole(place)
    ? image(place)
    : log.wholeRow(place.table, sql`pg_catalog.jsonb_build_object(${join(pk, COMMA)})`)
  return sql`${old} as svc_old, ${join(keys, COMMA)}`
}

export const sameKey = (table: Table): Sql =>
  join(
    table.primaryKey.map((column, i) => equals(column, ROW, sql`${BEFORE}.${oldKey(i)}`)),
    sql` and `,
  )

/** The image of the new row. */
const newImage = (place: Place, log: Appender): Sql =>
  isSeenWhole(place) ? sql`${MADE}.svc_json::pg_catalog.jsonb` : log.wholeRow(place.table, sql`${MADE}.svc_pk`)

const NONE = sql`null::pg_catalog.jsonb[]`

const logOne = (place: Place, log: Appender, action: ChangeAction): Sql =>
  log.append(place.table, {
    action,
    pks: sql`array[${MADE}.svc_pk]`,
    records: action === 'delete' ? NONE : sql`array[${newImage(place, log)}]`,
    oldRecords: action === 'create' ? NONE : sql`array[${MADE}.svc_old]`,
  })

/** As logOne, for all rows that a statement changed, in `order`. */
export const logAll = (place: Place, log: Appender, action: ChangeAction, order: Sql): Sql =>
  log.append(place.table, {
    action,
    pks: sql`pg_catalog.array_agg(${MADE}.svc_pk${order})`,
    records: action === 'delete' ? NONE : sql`pg_catalog.array_agg(${newImage(place, log)}${order})`,
    oldRecords: action === 'create' ? NONE : sql`pg_catalog.array_agg(${MADE}.svc_old${order})`,
  })
