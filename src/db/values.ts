import pg from 'pg'
import { badRequest } from '../core/errors.ts'
import type { Relayed, Row } from './db.ts'
import type { Value } from './sql.ts'

/** Values are bound as text; PostgreSQL parses them by the parameter's type. */
export function toText(value: Value): string | null {
  if (value === null) return null
  if (typeof value === 'string') {
    // The wire protocol ends text at NUL, and no PostgreSQL text can hold one.
    if (value.includes('\0')) throw badRequest('invalid text value: NUL is not allowed')
    return value
  }
  if (value instanceof Date) return value.toISOString()
  if (typeof value === 'object') return arrayLiteral(value)
  return String(value)
}

function arrayLiteral(items: readonly (string | number | null)[]): string {
  const parts = items.map((item) => {
    const text = toText(item)
    return text === null ? 'NULL' : `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
  })
  return `{${parts.join(',')}}`
}

const asNumber = (text: string) => Number(text)
const TEXT_ARRAY = 1009 as Parameters<typeof pg.types.getTypeParser>[0] // the driver's types do not declare arrays
const asArray = pg.types.getTypeParser(TEXT_ARRAY) as (text: string) => unknown
const parsers: Record<number, (text: string) => unknown> = {
  16: (text) => text === 't',
  20: asNumber, // int8: counts and ids of our own tables stay far below 2^53
  21: asNumber,
  23: asNumber,
  26: asNumber,
  700: asNumber,
  701: asNumber,
  114: (text) => JSON.parse(text) as unknown,
  3802: (text) => JSON.parse(text) as unknown,
  1009: asArray, // text[]
  1015: asArray, // varchar[]
  2951: asArray, // uuid[]
  1184: (text) => new Date(text),
}

/** Rows as objects for the server's own use; request data stays JSON text. */
export function toRows(fields: readonly pg.FieldDef[], rows: readonly (readonly (Relayed | null)[])[]): Row[] {
  const columns = fields.map(({ name, dataTypeID }) => ({ name, parse: parsers[dataTypeID] }))
  return rows.map((cells) => {
    const row: Row = {}
    for (let i = 0; i < columns.length; i++) {
      const { name, parse } = columns[i] as (typeof columns)[number]
      const cell = cells[i] ?? null
      row[name] = parse && typeof cell === 'string' ? parse(cell) : cell
    }
    return row
  })
}
