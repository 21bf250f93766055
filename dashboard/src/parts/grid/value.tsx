import { text } from '../format.ts'

const SHOWN = 300

// Directions and line breaks of a value must not reach beyond its cell, nor look like something else.
const HIDDEN = /[\p{Cc}\p{Cf}]/gu
const NAMES: Record<string, string> = { '\n': '↵', '\t': '⇥', '\r': '␍' }

/** One line of a value, with everything invisible made visible. */
export function oneLine(value: unknown): string {
  const whole = typeof value === 'string' ? value.slice(0, SHOWN + 1) : text(value)
  const cut = whole.length > SHOWN ? `${whole.slice(0, SHOWN)}…` : whole
  return cut.replace(HIDDEN, (hidden) => NAMES[hidden] ?? `‹${hidden.charCodeAt(0).toString(16).padStart(4, '0')}›`)
}

export function Value({ value }: { value: unknown }) {
  if (value === null || value === undefined) return <span className="null">NULL</span>
  if (value === '') return <span className="blank">empty</span>
  return oneLine(value)
}
