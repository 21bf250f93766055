import { catalogueExpression, Ident, join, type Sql, sql } from '../sql.ts'
import type { Column, Generation, Schema, Table } from './snapshot.ts'
import { fromGeoJson, isSpatial } from './spatial-conversion.ts'

/** Policies and filters refer to the row by its table's name, as pg_get_expr writes it. */
export const rowAlias = (table: Table): Ident => new Ident(table.name)

/** A table and the snapshot it belongs to. */
export type TableInSchema = { readonly schema: Schema; readonly table: Table }

const isVirtual = ({ generation }: Column): boolean => generation?.isVirtual === true

/**
 * JSON of the change log as a row of its table, under the table's name. Virtual columns are computed, as reads compute them:
 * the image may be older than their expression.
 */
export const rowImage = (at: TableInSchema, json: Sql): Sql => computed(at, json, isVirtual)

/** As rowImage, of a row before it is written: PostgreSQL computes every generated column of it. */
export const rowToWrite = (at: TableInSchema, json: Sql): Sql =>
  computed(at, json, ({ generation }) => generation !== undefined)

/** The columns that an image must hold so that these can be told of it: those that virtual ones are computed from. */
export const heldColumns = ({ columns }: Table, names: readonly string[]): string[] => [
  ...new Set(
    names.flatMap((name) => {
      const generation = columns.get(name)?.generation
      return generation?.isVirtual ? generation.reads : [name]
    }),
  ),
]

function computed(at: TableInSchema, json: Sql, isComputed: (column: Column) => boolean): Sql {
  const { table } = at
  const columns = [...table.columns.values()]
  const given = givenRow(at, json)
  if (!columns.some(isComputed)) return given
  const values = columns.map((column) =>
    isComputed(column) ? expressionOf(column.generation) : sql`${rowAlias(table)}.${column.ident}`,
  )
  return populated(table, sql`(select row(${join(values)})::${table.ident} from ${given})`, sql`'{}'`)
}

/** Each column as the JSON has it; one that was added since is null. */
function givenRow({ schema, table }: TableInSchema, json: Sql): Sql {
  const columns = [...table.columns.values()]
  const spatial = columns.filter(isSpatial)
  const hasRequired = columns.some(({ notNull }) => notNull)
  if (spatial.length === 0 && !hasRequired) return populated(table, sql`null::${table.ident}`, readable(table, json))
  const base = columns.map((column) => {
    // GeoJSON names no reference system, so PostGIS would not use the column's.
    if (isSpatial(column)) return fromGeoJson(schema, column, memberText(json, column.name))
    return column.notNull ? sql`${BLANK}.${column.ident}` : NOTHING
  })
  const row = sql`row(${join(base)})::${table.ident}`
  const whole = hasRequired ? sql`(select ${row} from ${blankRow(table)})` : row
  return populated(table, whole, readable(table, without(json, spatial)))
}

const NOTHING = sql`null`
const BLANK = new Ident('svc_blank')

/** Nothing but an outer join makes null of a domain that is NOT NULL (CREATE DOMAIN, notes). */
const blankRow = ({ ident }: Table): Sql =>
  sql`(select) as svc_one left join pg_catalog.jsonb_populate_recordset(null::${ident}, '[]') as ${BLANK} on true`

const expressionOf = (generation: Generation | undefined): Sql =>
  generation ? sql`(${catalogueExpression(generation.expression)})` : NOTHING

const populated = (table: Table, base: Sql, json: Sql): Sql =>
  sql`pg_catalog.jsonb_populate_record(${base}, ${json}) as ${rowAlias(table)}`

function readable({ columns, oid }: Table, json: Sql): Sql {
  const isRead = [...columns.values()].every(({ readsBack }) => readsBack)
  return isRead ? json : sql`svc.readable_image(${json}, ${oid}::pg_catalog.oid)`
}

const without = (json: Sql, columns: readonly Column[]): Sql =>
  sql`(${json}) - ${columns.map(({ name }) => name)}::text[]`

const memberText = (json: Sql, name: string): Sql => sql`nullif((${json}) -> ${name}::text, 'null')::text`

/** The table, or its rows of another time. */
export const rowsIn = ({ ident, rowsThen }: Table): Sql => rowsThen ?? sql`${ident}`
