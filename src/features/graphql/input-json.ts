import { Json } from './scalars.ts'

/** A coerced input as JSON text. Numbers that came as text stay text: PostgreSQL reads both, and loses no digit. */
export function jsonOf(value: unknown): string {
  if (value instanceof Json) return value.text
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(',')}]`
  return JSON.stringify(value ?? null)
}
