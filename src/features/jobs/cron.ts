import { Cron } from 'croner'
import { badRequest } from '../../core/errors.ts'

const MONTHS = 'jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec'
const DAYS = 'sun|mon|tue|wed|thu|fri|sat'

/** POSIX: `*`, values, ranges and lists; also steps and names, as in other crons. */
const field = (value: string): RegExp => {
  const item = `(?:\\*|(?:${value})(?:-(?:${value}))?)(?:/[0-9]{1,2})?`
  return new RegExp(`^${item}(?:,${item})*$`, 'i')
}
const NUMBER = '[0-9]{1,2}'
const FIELDS = [field(NUMBER), field(NUMBER), field(NUMBER), field(`${NUMBER}|${MONTHS}`), field(`${NUMBER}|${DAYS}`)]
const LONGEST_EXPRESSION = 200

/** A skipped wall clock time, as when summer time begins, is at most this far from one that exists. */
const DAY_MS = 86_400_000
const MINUTE_MS = 60_000
/** Upper bound of the due times that one clock change can repeat. */
const MOST_SKIPPED = 3 * 1440

/**
 * When a cron expression is due in a time zone. A time that the clocks skip is due at the first instant after the gap,
 * a time that they show twice at the first; see docs/decisions/queue-and-jobs.md.
 */
export class CronTimes {
  readonly #cron: Cron
  readonly #zone: Zone

  /** Throws 400 for an invalid expression, one that is never due, and an unknown time zone. */
  constructor(expression: string, timezone: string) {
    this.#zone = new Zone(timezone)
    this.#cron = parsed(expression)
  }

  /** The first instant after `now` at which it is due. */
  next(now: Date): Date | undefined {
    let wall: Date | null = this.#zone.wallAt(now)
    for (let i = 0; i < MOST_SKIPPED; i++) {
      wall = this.#cron.nextRun(wall)
      if (wall === null) return undefined
      const due = this.#zone.firstInstant(wall)
      if (due > now) return due
    }
    return undefined
  }
}

/** Wall clock times are written as if they were UTC, which has neither gaps nor repetitions. */
function parsed(expression: string): Cron {
  const invalid = () => badRequest('invalid cron expression')
  if (expression.length > LONGEST_EXPRESSION) throw invalid()
  const parts = expression.trim().split(/\s+/)
  if (parts.length !== 5 || !parts.every((part, i) => FIELDS[i]?.test(part))) throw invalid()
  let cron: Cron
  try {
    cron = new Cron(parts.join(' '), { utcOffset: 0, paused: true, mode: '5-part' })
  } catch {
    throw invalid()
  }
  if (cron.nextRun(new Date()) === null) throw invalid()
  return cron
}

class Zone {
  /** None for UTC, which most schedules are in: the tables of Intl cost every server 8 MB. */
  readonly #clock: Intl.DateTimeFormat | undefined

  constructor(name: string) {
    if (name === 'UTC') return
    // IANA names only: Intl takes offsets such as +02:00 too.
    if (!/^[A-Za-z]/.test(name)) throw badRequest('invalid timezone')
    try {
      this.#clock = new Intl.DateTimeFormat('en-US', {
        timeZone: name,
        calendar: 'gregory',
        numberingSystem: 'latn',
        hourCycle: 'h23',
        year: 'numeric',
        month: 'numeric',
        day: 'numeric',
        hour: 'numeric',
        minute: 'numeric',
        second: 'numeric',
      })
    } catch {
      throw badRequest('invalid timezone')
    }
  }

  /** The local time, written as UTC. */
  wallAt(instant: Date): Date {
    if (!this.#clock) return new Date(Math.floor(instant.getTime() / 1000) * 1000)
    const shown = new Map(this.#clock.formatToParts(instant).map(({ type, value }) => [type, Number(value)]))
    const part = (name: Intl.DateTimeFormatPartTypes): number => shown.get(name) ?? 0
    return new Date(
      Date.UTC(part('year'), part('month') - 1, part('day'), part('hour'), part('minute'), part('second')),
    )
  }

  /** The first instant at which the clock shows this time or, if it is skipped, a later one. */
  firstInstant(wall: Date): Date {
    const at = wall.getTime()
    const offsets = [-DAY_MS, DAY_MS].map((far) => this.#offset(at + far))
    const shown = offsets.map((offset) => at - offset).filter((instant) => this.#shows(instant) === at)
    return new Date(shown.length > 0 ? Math.min(...shown) : this.#endOfGap(at, offsets))
  }

  #shows(instant: number): number {
    return this.wallAt(new Date(instant)).getTime()
  }

  #offset(instant: number): number {
    return this.#shows(instant) - Math.floor(instant / 1000) * 1000
  }

  /** Before the gap the clock shows less than `wall`, after it more: the jump lies between, on a whole minute. */
  #endOfGap(wall: number, offsets: readonly number[]): number {
    let before = wall - Math.max(...offsets)
    let after = wall - Math.min(...offsets)
    while (after - before > MINUTE_MS) {
      const middle = before + Math.floor((after - before) / 2 / MINUTE_MS) * MINUTE_MS
      if (this.#shows(middle) < wall) before = middle
      else after = middle
    }
    return after
  }
}
