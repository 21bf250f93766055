import { columnJson, jsonColumns } from '../../../db/schema/row-json.ts'
import type { Column, Schema } from '../../../db/schema/snapshot.ts'
import { COMMA, type Ident, join, type Slot, type Sql, sql } from '../../../db/sql.ts'

const LONG_TYPES: ReadonlySet<string> = new Set(['json', 'jsonb', 'bytea', 'xml', 'citext', 'tsvector', 'hstore'])

/** Never the key, by which the whole row is read. */
const mayBeCut = ({ isText, baseType, isArray, isPrimaryKey }: Column): boolean =>
  !isArray && !isPrimaryKey && (isText || LONG_TYPES.has(baseType))

/** As jsonColumns, with long values cut and the names of those in `_cut`. */
export function cutColumns(schema: Schema, columns: readonly Column[], row: Ident, cut: Slot): Sql {
  const shown = columns.filter(({ name }) => name !== '_cut')
  const long = shown.filter(mayBeCut)
  const values = shown.map((column) =>
    mayBeCut(column) ? cutColumn(schema, column, row, cut) : jsonColumns(schema, [column], row),
  )
  const names = long.map((column) => sql`case when ${isLong(column, row, cut)} then ${column.name}::text end`)
  const named = long.length > 0 ? sql`pg_catalog.array_remove(array[${join(names, COMMA)}], null)` : sql`'{}'::text[]`
  return join([...values, sql`${named} as _cut`], COMMA)
}

/** Of bytes, the characters of `\x` and two hexadecimal digits for each. */
const isLong = ({ ident, baseType }: Column, row: Ident, cut: Slot): Sql =>
  baseType === 'bytea'
    ? sql`2 operator(pg_catalog.+) 2 operator(pg_catalog.*) pg_catalog.length(${row}.${ident}) operator(pg_catalog.>) ${cut}::int4`
    : sql`pg_catalog.length(${row}.${ident}::text) operator(pg_catalog.>) ${cut}::int4`

function cutColumn(schema: Schema, column: Column, row: Ident, cut: Slot): Sql {
  const { ident, baseType } = column
  const start =
    baseType === 'bytea'
      ? sql`pg_catalog.substr(${row}.${ident}, 1, greatest(0, (${cut}::int4 - 2) / 2))`
      : sql`pg_catalog."left"(${row}.${ident}::text, ${cut}::int4)`
  return sql`case when ${isLong(column, row, cut)} then pg_catalog.to_json(${start})
    else pg_catalog.to_json(${columnJson(schema, column, row)}) end as ${ident}`
}
