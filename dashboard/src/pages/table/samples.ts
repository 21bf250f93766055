import type { Column } from '../../api/schema.ts'
import { Digits } from '../../parts/exact.ts'

const SAMPLES: readonly (readonly [RegExp, unknown])[] = [
  [/\[\]$/, []],
  [/^(smallint|integer|bigint|numeric|real|double|oid)/, 1],
  [/^money/, '1.00'],
  [/^bool/, true],
  [/^timestamp/, '2026-01-02T03:04:05Z'],
  [/^date$/, '2026-01-02'],
  [/^time/, '03:04:05'],
  [/^interval/, '1 day'],
  [/^uuid/, '00000000-0000-0000-0000-000000000001'],
  [/^json/, {}],
  [/^bytea/, '\\x00ff'],
  [/^(inet|cidr)/, '10.0.0.1'],
  [/^macaddr$/, '08:00:2b:01:02:03'],
  [/^(text|character|citext|name)/, 'text'],
]
const BY_JSON: Record<string, unknown> = { number: 1, integer: 1, boolean: true, array: [], object: {} }
const LENGTH = /^character(?: varying)?\((\d+)\)/
const DAY_MS = 86_400_000

const fitting = ({ type }: Column, text: string): string => text.slice(0, Number(LENGTH.exec(type)?.[1] ?? text.length))

/** Something that a column of this type takes. */
export function sampleOf(column: Column): unknown {
  const { type, enumValues, isGeometry, isGeography, isVector, jsonType } = column
  if (type.endsWith('[]')) return []
  if (enumValues) return enumValues[0]
  if (isGeometry || isGeography) return { type: 'Point', coordinates: [0, 0] }
  if (isVector) return Array.from({ length: Number(/\((\d+)\)/.exec(type)?.[1] ?? 1) }, () => 1)
  const found = SAMPLES.find(([pattern]) => pattern.test(type))
  const value = found ? found[1] : (BY_JSON[jsonType] ?? 'text')
  return typeof value === 'string' ? fitting(column, value) : value
}

/** Another value than that of a row, for what may be there only once. */
export function otherThan(column: Column, value: unknown): unknown {
  const { type, enumValues } = column
  if (enumValues) return enumValues.find((label) => label !== value) ?? value
  if (typeof value === 'boolean') return !value
  if (typeof value === 'number') return value + 1
  if (value instanceof Digits)
    return /^-?\d+$/.test(value.source) ? new Digits(String(BigInt(value.source) + 1n)) : Number(value.source) + 1
  if (typeof value !== 'string') return sampleOf(column)
  if (type === 'uuid') return value.slice(0, -1) + ((Number.parseInt(value.slice(-1), 16) + 1) % 16).toString(16)
  if (/^(date$|timestamp)/.test(type)) {
    const next = Date.parse(value) + DAY_MS
    if (Number.isNaN(next)) return sampleOf(column)
    return new Date(next).toISOString().slice(0, type === 'date' ? 10 : undefined)
  }
  return sampleOf(column) === fitting(column, 'text') ? fitting(column, `new-${value}`) : sampleOf(column)
}
