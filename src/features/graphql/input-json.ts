import { Json } from './document/scalars.ts'

/** A coerced input as JSON text. Numbers sent as text stay text: PostgreSQL reads both without losing digits. */
export function inputJson(value: unknown): string {
  if (value instanceof Json) return value.text
  if (Array.isArray(value)) return `[${value.map(inputJson).join(',')}]`
  return JSON.stringify(value ?? null)
}
