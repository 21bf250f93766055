import { definitions, INPUT, isHstore } from '../../../db/rows/write.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import { COMMA, Ident, join, type Sql, slotAt, sql } from '../../../db/sql.ts'
import { type BodyRow, bodyOf, type CellsRow, isJson } from './records.ts'

/** The rows of a chunk as parameters: an array per column if all rows have cells, otherwise one JSON array. */
export function inputOf(rows: readonly (CellsRow | BodyRow)[]): { form: 'cells' | 'bodies'; values: string[] } {
  const columns = rows[0]?.columns ?? []
  if (!rows.every(hasCells)) return { form: 'bodies', values: [`[${rows.map(bodyOf).join()}]`] }
  return { form: 'cells', values: columns.map((_, i) => `{${rows.map(({ cells }) => element(cells[i])).join()}}`) }
}

const hasCells = (row: CellsRow | BodyRow): row is CellsRow => !('body' in row)

const SPECIAL = /["\\]/g

/** An element of an array literal (PostgreSQL manual, section 8.15.6). */
function element(cell: string | null | undefined): string {
  if (cell === null || cell === undefined) return 'NULL'
  return cell.includes('"') || cell.includes('\\') ? `"${cell.replace(SPECIAL, '\\$&')}"` : `"${cell}"`
}

/** Built-in types whose array delimiter is a comma. Values of other types are cast from text one by one. */
const READ_AT_ONCE = new Set([
  ...['bool', 'bytea', 'uuid', 'text', 'varchar', 'bpchar', 'json', 'jsonb'],
  ...['int2', 'int4', 'int8', 'float4', 'float8', 'numeric'],
  ...['date', 'time', 'timetz', 'timestamp', 'timestamptz', 'interval'],
])
const TEXT = new Ident('pg_catalog', 'text')

/** Slot i holds the cells of column i. */
export function cellsInput(columns: readonly Column[]): Sql {
  const cells = columns.map((column, i) => {
    const { ident, baseType, castType } = column
    if (READ_AT_ONCE.has(baseType))
      return sql`pg_catalog.unnest(${slotAt(i)}::${new Ident('pg_catalog', baseType)}[]) as ${ident}`
    const texts = sql`pg_catalog.unnest(${slotAt(i)}::${TEXT}[])`
    return isHstore(column) ? sql`pg_catalog.to_jsonb(${texts}) as ${ident}` : sql`${texts}::${castType} as ${ident}`
  })
  return sql`(select ${join(cells, COMMA)}) as ${INPUT}`
}

const RAW = new Ident('svc_raw')

/** The first slot holds the rows as a JSON array. With `hasJsonAsText`, json columns hold the text of a JSON value. */
export function bodiesInput(columns: readonly Column[], hasJsonAsText: boolean): Sql {
  const rows = sql`pg_catalog.json_to_recordset(${slotAt(0)}::pg_catalog.json)`
  if (!hasJsonAsText || !columns.some(isJson)) return sql`${rows} as ${INPUT}(${definitions(columns)})`
  const given = columns.map((column) => (isJson(column) ? sql`${column.ident} text` : definitions([column])))
  const read = columns.map((column) =>
    isJson(column) ? sql`${RAW}.${column.ident}::${column.castType} as ${column.ident}` : sql`${RAW}.${column.ident}`,
  )
  return sql`(select ${join(read, COMMA)} from ${rows} as ${RAW}(${join(given, COMMA)})) as ${INPUT}`
}
