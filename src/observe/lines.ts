import type { Observation } from '../core/observe.ts'

export type Format = (observation: Observation, at: number) => string

let stampedAt = 0
let stamp = ''

/** Busy servers log many lines within one millisecond; they share the text of it. */
function isoTime(at: number): string {
  if (at !== stampedAt) {
    stampedAt = at
    stamp = new Date(at).toISOString()
  }
  return stamp
}

export const jsonLine: Format = ({ level, message, attrs }, at) => {
  const rest = attrs === undefined ? '{}' : JSON.stringify(attrs)
  const head = `{"time":"${isoTime(at)}","level":"${level}","message":${JSON.stringify(message)}`
  return rest === '{}' ? `${head}}\n` : `${head},${rest.slice(1)}\n`
}

export const textLine: Format = ({ level, message, attrs }, at) => {
  let line = `${isoTime(at)} ${level.toUpperCase().padEnd(5)} ${printable(message)}`
  for (const [name, value] of Object.entries(attrs ?? {})) {
    if (value === undefined) continue
    line += ` ${name}=${typeof value === 'string' && !/^[\w./:@-]+$/.test(value) ? JSON.stringify(value) : value}`
  }
  return `${line}\n`
}

/** A line break in a message must not be able to forge another line. */
const printable = (text: string): string => (text.includes('\n') || text.includes('\r') ? JSON.stringify(text) : text)
