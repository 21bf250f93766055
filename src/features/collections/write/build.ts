import { appendChanges, type ChangeAction } from '../../../db/changes/append.ts'
import { rowJson, rowJsonb } from '../../../db/schema/row-json.ts'
import type { Column, Schema, Table } from '../../../db/schema/snapshot.ts'
import { keyFor } from '../../../db/schema/viewer.ts'
import { COMMA, EMPTY, Ident, join, type Sql, sql } from '../../../db/sql.ts'
import { equals, keyIs } from '../list/build.ts'
import type { Place } from '../place.ts'
import { isSpatial } from './body.ts'

// Names inside our statements; columns are always qualified with one of them.
export const ROW = new Ident('svc_t')
export const INPUT = new Ident('svc_in')
export const MADE = new Ident('svc_made')
export const BEFORE = new Ident('svc_before')

/** One write: which columns, and the JSON text of the client that holds their values. */
export type Write = { readonly columns: readonly Column[]; readonly body: string; readonly actor: string }

/** Answers the new record as JSON text, or no row. */
export function buildCreate(place: Place, { columns, body, actor }: Write): Sql {
  return sql`with ${MADE} as (${insert(place, columns, oneInput(columns, body))}
      returning ${outcome(place)}
    )${logged(place, 'create', actor)}
    select ${MADE}.svc_json::text from ${MADE}`
}

/** Answers the whole updated record as JSON text, or no row. */
export function buildUpdate(place: Place, key: readonly string[], { columns, body, actor }: Write): Sql {
  const { table } = place
  const where = keyIs(table, ROW, key)
  const update = sql`update ${table.ident} as ${ROW} set ${assignments(place.schema, columns)}
      from ${oneInput(columns, body)}`
  const made = table.watched
    ? sql`${MADE} as (${update} where ${where} returning ${outcome(place)})`
    : sql`${BEFORE} as (
      select ${oldImage(place)} from ${table.ident} as ${ROW} where ${where} for no key update
    ), ${MADE} as (${update}, ${BEFORE} where ${sameKey(table)} returning ${outcome(place)})`
  return sql`with ${made}${logged(place, 'update', actor)}
    select ${MADE}.svc_json::text from ${MADE}`
}

/** Answers one row if there was one to delete. */
export function buildDelete(place: Place, key: readonly string[], actor: string): Sql {
  const { table } = place
  return sql`with ${MADE} as (
      delete from ${table.ident} as ${ROW} where ${keyIs(table, ROW, key)} returning ${outcome(place)}
    )${logged(place, 'delete', actor)}
    select 1 from ${MADE}`
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

/** What RETURNING hands on: the record for the client and, unless a trigger writes the log, its key. */
export function outcome({ schema, table, viewer }: Place): Sql {
  const json = sql`${rowJson(schema, table, viewer.role, ROW)} as svc_json`
  if (table.watched) return json
  const key = keyFor(table, viewer.role).map(({ name, ident }) => sql`${name}::text, ${ROW}.${ident}`)
  return sql`${json}, pg_catalog.jsonb_build_object(${join(key, COMMA)}) as svc_pk`
}

const oldKey = (i: number): Ident => new Ident(`svc_k${i}`)

/** Read under the lock that the update needs anyway, so it is the image that the update replaces. */
export function oldImage({ schema, table, viewer }: Place): Sql {
  const keys = table.primaryKey.map((column, i) => sql`${ROW}.${column.ident} as ${oldKey(i)}`)
  return sql`${rowJsonb(schema, table, viewer.role, ROW)} as svc_image, ${join(keys, COMMA)}`
}

export const sameKey = (table: Table): Sql =>
  join(
    table.primaryKey.map((column, i) => equals(column, ROW, sql`${BEFORE}.${oldKey(i)}`)),
    sql` and `,
  )

/** The CTE that appends to the change log; `pairing` says which old image belongs to which new one. */
export function logged({ table }: Place, action: ChangeAction, actor: string, pairing: Sql = EMPTY): Sql {
  if (table.watched) return EMPTY
  const none = sql`null::pg_catalog.jsonb`
  const image = sql`${MADE}.svc_json::pg_catalog.jsonb`
  return sql`, svc_logged as (${appendChanges({
    action,
    table,
    actor,
    pk: sql`${MADE}.svc_pk`,
    record: action === 'delete' ? none : image,
    oldRecord: action === 'create' ? none : action === 'update' ? sql`${BEFORE}.svc_image` : image,
    from: action === 'update' ? sql`${MADE}, ${BEFORE}${pairing}` : sql`${MADE}`,
  })})`
}
