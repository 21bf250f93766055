import { levelOf, type Observation } from '../../core/observe.ts'

export type LogFormat = (observation: Observation, at: number) => string

let stampedSecond = 0
let stamp = ''

/** Caches the text of the current second, which many lines share. */
function isoTime(at: number): string {
  const second = Math.floor(at / 1000)
  if (second !== stampedSecond) {
    stampedSecond = second
    stamp = new Date(second * 1000).toISOString().slice(0, 20)
  }
  return `${stamp}${String(at - second * 1000).padStart(3, '0')}Z`
}

/** Plain strings skip JSON.stringify, because every request logs a line. */
const NEEDS_ESCAPE = /[^\x20-\x21\x23-\x5b\x5d-\x7e]/

const jsonString = (text: string): string => (NEEDS_ESCAPE.test(text) ? JSON.stringify(text) : `"${text}"`)

const scalar = (value: number | boolean | null): string =>
  typeof value === 'number' && !Number.isFinite(value) ? 'null' : String(value)

export const jsonLine: LogFormat = (observation, at) => {
  const { message, attrs } = observation
  let line = `{"time":"${isoTime(at)}","level":"${levelOf(observation)}","message":${jsonString(message)}`
  for (const name in attrs) {
    const value = attrs[name]
    if (value === undefined) continue
    line += `,"${name}":${typeof value === 'string' ? jsonString(value) : scalar(value)}`
  }
  return `${line}}\n`
}

export const textLine: LogFormat = (observation, at) => {
  const { message, attrs } = observation
  let line = `${isoTime(at)} ${levelOf(observation).toUpperCase().padEnd(5)} ${printable(message)}`
  for (const name in attrs) {
    const value = attrs[name]
    if (value === undefined) continue
    line += ` ${name}=${typeof value === 'string' && !/^[\w./:@-]+$/.test(value) ? JSON.stringify(value) : value}`
  }
  return `${line}\n`
}

/** Escapes line breaks, so that a message cannot forge another line. */
const printable = (text: string): string => (text.includes('\n') || text.includes('\r') ? JSON.stringify(text) : text)
