import type { DatabaseRole } from '../../core/identity.ts'
import { type Ident, join, type Sql, sql } from '../sql.ts'
import type { Column, JsonForm, Schema, Table } from './snapshot.ts'
import { isSpatial, toGeoJson } from './spatial-conversion.ts'
import { columnsFor } from './viewer.ts'

/** PostgreSQL writes it as text, also in the change log. */
const isOid = (type: JsonForm): boolean => (type.element ?? type).baseType === 'oid'

/** Whether our JSON of this type differs from PostgreSQL's. */
export const isConverted = (type: JsonForm): boolean => isSpatial(type) || type.isVector || isOid(type)

/** Whether rows are answered in another form than that of the change log. */
export const isLoggedOtherwise = ({ columns }: Table): boolean => [...columns.values()].some(isOid)

/** A value of the type as it appears in JSON. */
export function valueJson(schema: Schema, type: JsonForm, value: Sql): Sql {
  if (isSpatial(type)) return toGeoJson(schema, type, value)
  if (isOid(type)) return type.isArray ? sql`${value}::pg_catalog.int8[]` : sql`${value}::pg_catalog.int8`
  // pgvector writes a vector the way JSON writes an array of numbers.
  return type.isVector ? sql`${value}::text::pg_catalog.json` : value
}

/** A column's value as it appears in JSON. */
export const columnJson = (schema: Schema, column: Column, alias: Ident): Sql =>
  valueJson(schema, column, sql`${alias}.${column.ident}`)

/** As columnJson, under the column's name. */
const jsonColumn = (schema: Schema, column: Column, alias: Ident): Sql => {
  const value = columnJson(schema, column, alias)
  return isConverted(column) ? sql`${value} as ${column.ident}` : value
}

export const jsonColumns = (schema: Schema, columns: readonly Column[], alias: Ident): Sql =>
  join(columns.map((column) => jsonColumn(schema, column, alias)))

/** All columns of a row in their JSON form; undefined when that is PostgreSQL's own. */
export function convertedRow(schema: Schema, table: Table, alias: Ident): Sql | undefined {
  const columns = [...table.columns.values()]
  return columns.some(isConverted) ? jsonColumns(schema, columns, alias) : undefined
}

/** The row under `alias` as the role may see it: one JSON object. */
export const rowJson = (schema: Schema, table: Table, role: DatabaseRole, alias: Ident): Sql =>
  rowObject(schema, table, role, alias, sql`pg_catalog.to_json`, sql`'{}'::pg_catalog.json`)

/** As rowJson, as jsonb for the change log. */
export const rowJsonb = (schema: Schema, table: Table, role: DatabaseRole, alias: Ident): Sql =>
  rowObject(schema, table, role, alias, sql`pg_catalog.to_jsonb`, sql`'{}'::pg_catalog.jsonb`)

function rowObject(schema: Schema, table: Table, role: DatabaseRole, alias: Ident, convert: Sql, nothing: Sql): Sql {
  const columns = columnsFor(table, role)
  // Most tables need no conversion, and so no subselect.
  if (columns.length === table.columns.size && !columns.some(isConverted)) return sql`${convert}(${alias}.*)`
  return columns.length > 0
    ? sql`(select ${convert}(j.*) from (select ${jsonColumns(schema, columns, alias)}) as j)`
    : nothing
}
