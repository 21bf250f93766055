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

export const textLine: LogFormat = (observation, at) =>
  `${isoTime(at)} ${levelOf(observation).toUpperCase().padEnd(5)} ${restOf(observation)}\n`

const COLOURS = { debug: '90', info: '32', warn: '33', error: '31' } as const
const painted = (code: string, text: string): string => `\x1b[${code}m${text}\x1b[0m`

/** For a terminal: the time of day is enough, the level has a colour. */
export const colourLine: LogFormat = (observation, at) => {
  const level = levelOf(observation)
  const time = painted('90', isoTime(at).slice(11, 23))
  return `${time} ${painted(COLOURS[level], level.toUpperCase().padEnd(5))} ${restOf(observation)}\n`
}

function restOf({ message, attrs }: Observation): string {
  let line = printable(message)
  for (const name in attrs) {
    const value = attrs[name]
    if (value === undefined) continue
    line += ` ${name}=${typeof value === 'string' && !/^[\w./:@-]+$/.test(value) ? quoted(value) : value}`
  }
  return line
}

/** Control characters, of C1 too, which a terminal would obey, and those that turn the direction of text. */
const UNPRINTABLE = /[\p{Cc}\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

const quoted = (text: string): string =>
  JSON.stringify(text).replace(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)

/** Escapes line breaks, so that a message cannot forge another line, and whatever else a terminal would act upon. */
const printable = (text: string): string => (text.search(UNPRINTABLE) === -1 ? text : quoted(text))
