import { Ident, join, type Sql, sql } from '../sql.ts'
import type { Schema, Table } from './snapshot.ts'
import { fromGeoJson, isSpatial } from './spatial-conversion.ts'

/** Policies and filters refer to the row by its table's name, as pg_get_expr writes it. */
export const rowAlias = (table: Table): Ident => new Ident(table.name)

/** A table and the snapshot it belongs to. */
export type TableInSchema = { readonly schema: Schema; readonly table: Table }

/** JSON of the change log as a row of its table, under the table's name. */
export function rowImage({ schema, table }: TableInSchema, json: Sql): Sql {
  const columns = [...table.columns.values()]
  const spatial = columns.filter(isSpatial)
  if (spatial.length === 0) {
    return populated(table, sql`null::${table.ident}`, json)
  }
  // GeoJSON names no reference system, so PostGIS would not use the column's.
  const base = join(
    columns.map((column) =>
      isSpatial(column) ? fromGeoJson(schema, column, memberText(json, column.name)) : sql`null`,
    ),
  )
  const names = spatial.map((column) => column.name)
  return populated(table, sql`row(${base})::${table.ident}`, sql`(${json}) - ${names}::text[]`)
}

function populated(table: Table, base: Sql, json: Sql): Sql {
  const isRead = [...table.columns.values()].every(({ readsBack }) => readsBack)
  const image = isRead ? json : sql`svc.readable_image(${json}, ${table.oid}::pg_catalog.oid)`
  return sql`pg_catalog.jsonb_populate_record(${base}, ${image}) as ${rowAlias(table)}`
}

const memberText = (json: Sql, name: string): Sql => sql`nullif((${json}) -> ${name}::text, 'null')::text`

/** The table, or its rows of another time. */
export const rowsIn = ({ ident, rowsThen }: Table): Sql => rowsThen ?? sql`${ident}`
