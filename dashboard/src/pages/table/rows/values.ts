import type { Column } from '../../../api/schema.ts'
import { exactJson, parseExact, prettyJson } from '../../../parts/exact.ts'
import { text } from '../../../parts/format.ts'

const NUMBERS = /^(smallint|integer|bigint|real|double precision|numeric|decimal|money|oid)/
const isArray = (column: Column): boolean => column.type.endsWith('[]')

export type Kind =
  | 'text'
  | 'number'
  | 'boolean'
  | 'enum'
  | 'date'
  | 'moment'
  | 'json'
  | 'array'
  | 'bytes'
  | 'place'
  | 'vector'

export function kindOf(column: Column): Kind {
  if (column.isGeometry || column.isGeography) return 'place'
  if (column.isVector) return 'vector'
  if (isArray(column)) return 'array'
  if (column.enumValues) return 'enum'
  if (column.type === 'boolean') return 'boolean'
  if (NUMBERS.test(column.type)) return 'number'
  if (column.type === 'date') return 'date'
  if (column.type.startsWith('timestamp')) return 'moment'
  if (column.type === 'json' || column.type === 'jsonb' || column.jsonType === 'object') return 'json'
  return column.type === 'bytea' ? 'bytes' : 'text'
}

const YES = new Set(['true', 't', 'yes', 'y', '1', 'on'])
const NO = new Set(['false', 'f', 'no', 'n', '0', 'off'])

/** What was typed, as the API takes it; digits stay text, so that none is lost. Throws a sentence. */
export function parseCell(column: Column, typed: string): unknown {
  const kind = kindOf(column)
  if (kind === 'text' || kind === 'enum') return typed
  const trimmed = typed.trim()
  if (trimmed === '') return null
  if (kind === 'boolean') {
    const word = trimmed.toLowerCase()
    if (YES.has(word)) return true
    if (NO.has(word)) return false
    throw new Error(`“${trimmed}” is neither true nor false`)
  }
  if (kind === 'number') {
    if (column.type !== 'money' && !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$|^(nan|[+-]?infinity)$/i.test(trimmed))
      throw new Error(`“${trimmed}” is no number`)
    return trimmed
  }
  if (kind === 'json' || kind === 'place') return fromJson(trimmed)
  if (kind === 'array' || kind === 'vector') return /^[[]/.test(trimmed) ? fromJson(trimmed) : trimmed
  if (kind === 'bytes' && !/^\\x([0-9a-f]{2})*$/i.test(trimmed))
    throw new Error('bytes are \\x and pairs of hexadecimal digits')
  return trimmed
}

function fromJson(typed: string): unknown {
  try {
    return parseExact(typed)
  } catch (error) {
    throw new Error(`this is no JSON: ${(error as Error).message}`)
  }
}

/** Of a spreadsheet, where an empty cell and NULL are the same. */
export const parsePasted = (column: Column, typed: string): unknown =>
  typed === '' && column.nullable ? null : parseCell(column, typed)

/** Lists of the list and of the change log differ in their spaces. */
const listText = (value: unknown): string =>
  Array.isArray(value) ? `[${value.map(listText).join(',')}]` : exactJson(value)

/** A text in a JSON column is JSON too: with its quotes. */
export function shownValue(column: Column, value: unknown): unknown {
  if (typeof value === 'string' && kindOf(column) === 'json') return JSON.stringify(value)
  return Array.isArray(value) && kindOf(column) === 'array' ? listText(value) : value
}

/** As one would type it. */
export function editText(column: Column, value: unknown): string {
  const kind = kindOf(column)
  const shown = text(shownValue(column, value))
  return kind === 'json' || kind === 'place' ? prettyJson(shown) : shown
}

/** A short form for arrays and numbers, a long one for texts. */
export function widthOf(column: Column): number {
  const kind = kindOf(column)
  const byKind: Partial<Record<Kind, number>> = {
    number: 110,
    boolean: 90,
    date: 120,
    moment: 280,
    json: 240,
    array: 180,
    vector: 180,
    place: 220,
  }
  const byType = column.type === 'uuid' ? 300 : (byKind[kind] ?? 190)
  return Math.max(byType, Math.min(280, column.name.length * 8 + shortType(column.type).length * 7 + 50))
}

const SHORT: readonly [RegExp, string][] = [
  [/^timestamp(\(\d\))? with time zone/, 'timestamptz'],
  [/^timestamp(\(\d\))? without time zone/, 'timestamp'],
  [/^time(\(\d\))? without time zone/, 'time'],
  [/^character varying/, 'varchar'],
  [/^double precision/, 'float8'],
]

/** A type as people write it. */
export const shortType = (type: string): string =>
  SHORT.reduce((text, [pattern, short]) => text.replace(pattern, short), type)
