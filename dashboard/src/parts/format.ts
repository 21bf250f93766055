import { exactJson, sourceOf } from './exact.ts'

const number = new Intl.NumberFormat('en')
const UNITS = ['B', 'kB', 'MB', 'GB', 'TB']

export const count = (value: number | bigint | string): string =>
  typeof value === 'string' ? number.format(Number(value)) : number.format(value)

export function bytes(value: number): string {
  let rest = value
  let unit = 0
  for (; rest >= 1000 && unit < UNITS.length - 1; unit++) rest /= 1000
  return `${rest >= 100 || unit === 0 ? Math.round(rest) : rest.toFixed(1)} ${UNITS[unit]}`
}

export function duration(ms: number): string {
  if (ms < 1) return `${ms.toFixed(2)} ms`
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 120_000) return `${(ms / 1000).toFixed(1)} s`
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`
  return ms < 172_800_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.round(ms / 86_400_000)} days`
}

const moments = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })
const times = new Intl.DateTimeFormat('en-GB', {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
})

function shown(format: Intl.DateTimeFormat, value: unknown): string {
  const date = new Date(String(value))
  return Number.isNaN(date.getTime()) ? String(value ?? '') : format.format(date)
}

export const moment = (value: unknown): string => (value == null || value === '' ? '–' : shown(moments, value))
export const clock = (value: unknown): string => shown(times, value)

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })

export function ago(value: unknown): string {
  if (value == null || value === '') return 'never'
  const seconds = (new Date(String(value)).getTime() - Date.now()) / 1000
  if (Number.isNaN(seconds)) return String(value)
  const size = Math.abs(seconds)
  if (size < 60) return relative.format(Math.round(seconds), 'second')
  if (size < 3600) return relative.format(Math.round(seconds / 60), 'minute')
  if (size < 86_400) return relative.format(Math.round(seconds / 3600), 'hour')
  return relative.format(Math.round(seconds / 86_400), 'day')
}

/** “3 rows”, “1 row”. */
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`

/** A value as one would type it. */
export function text(value: unknown): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? (sourceOf(value) ?? exactJson(value)) : String(value)
}

// Isolates and overrides of directions (UAX #9), and their marks.
const DIRECTIONS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** What turns the direction of a text around, made visible: `\u202egpj.exe` must not look like `exe.jpg`. */
export const visible = (text: string | null | undefined): string =>
  text?.replace(DIRECTIONS, (sign) => `‹${sign.charCodeAt(0).toString(16).padStart(4, '0')}›`) ?? ''
