import type { Appender, ChangeAction, ChangedRows } from '../changes/append.ts'
import { rowJson, rowJsonb } from '../schema/row-json.ts'
import type { Column, Schema, Table } from '../schema/snapshot.ts'
import { fromGeoJson, isSpatial } from '../schema/spatial/convert.ts'
import { columnsFor, keyFor } from '../schema/viewer.ts'
import { COMMA, EMPTY, Ident, join, ROW, type Sql, sql } from '../sql.ts'
import { equals } from './keys.ts'
import type { Place } from './place.ts'

// Names inside our statements; columns are always qualified with one of them.
export const INPUT = new Ident('svc_in')
export const MADE = new Ident('svc_made')
export const BEFORE = new Ident('svc_before')

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

function inputValue(schema: Schema, column: Column): Sql {
  const value = sql`${INPUT}.${column.ident}`
  return isSpatial(column) ? fromGeoJson(schema, column, sql`${value}::text`) : value
}

/** What RETURNING hands on: the record for the client, and its key. */
export const outcome = (place: Place): Sql =>
  outcomeAs(rowJson(place.schema, place.table, place.viewer.role, ROW), place)

/** The same where no client is answered with the record, in the form that the log keeps. */
export const loggedOutcome = (place: Place): Sql => outcomeAs(image(place), place)

function outcomeAs(record: Sql, { table, viewer }: Place): Sql {
  const key = keyFor(table, viewer.role).map(({ name, ident }) => sql`${name}::text, ${ROW}.${ident}`)
  return sql`${record} as svc_json, pg_catalog.jsonb_build_object(${join(key, COMMA)}) as svc_pk`
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

const NONE = sql`null::pg_catalog.jsonb`
const NONE_OF_ANY = sql`null::pg_catalog.jsonb[]`

/** Logs the one row that a statement changed; part of its select list. */
export const logOne = (place: Place, log: Appender, action: ChangeAction): Sql =>
  log.appendOne(place.table, {
    action,
    pk: sql`${MADE}.svc_pk`,
    record: action === 'delete' ? NONE : newImage(place, log),
    oldRecord: action === 'create' ? NONE : sql`${MADE}.svc_old`,
  })

/** As logOne, for all rows that a statement changed, in `order`. */
export const logAll = (place: Place, log: Appender, action: ChangeAction, order: Sql): Sql =>
  log.append(place.table, rowsMade(place, log, action, order, EMPTY))

/** All rows that a statement changed and `filter` lets through, aggregated for the log. */
export const rowsMade = (place: Place, log: Appender, action: ChangeAction, order: Sql, filter: Sql): ChangedRows => ({
  action,
  pks: sql`pg_catalog.array_agg(${MADE}.svc_pk${order})${filter}`,
  records: action === 'delete' ? NONE_OF_ANY : sql`pg_catalog.array_agg(${newImage(place, log)}${order})${filter}`,
  oldRecords: action === 'create' ? NONE_OF_ANY : sql`pg_catalog.array_agg(${MADE}.svc_old${order})${filter}`,
})
