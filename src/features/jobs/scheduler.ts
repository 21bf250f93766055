import { LRUCache } from 'lru-cache'
import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import { createWaker } from '../../db/waker.ts'
import { CronTimes } from './cron.ts'
import { dueSchedules, type Schedule, startDue, untilNext } from './schedule-sql.ts'

const SLICE = 200
/** Not to turn in circles while another process holds what is due. */
const SHORTEST_PAUSE_MS = 200

/** Parsing an expression and a time zone costs a millisecond; the same ones come every tick. */
const known = new LRUCache<string, CronTimes>({ max: 1000 })

export function timesOf(cronExpr: string, timezone: string): CronTimes {
  const key = `${timezone} ${cronExpr}`
  const times = known.get(key) ?? new CronTimes(cronExpr, timezone)
  known.set(key, times)
  return times
}

/**
 * Turns schedules that are due into jobs, once each over all processes. The database's clock decides; the next run is
 * reckoned from now, so that whatever was missed meanwhile is run once and not caught up.
 */
export class Scheduler {
  readonly #db: Db
  readonly #observe: Observe
  readonly #tickMs: number
  readonly #started: () => void
  readonly #waker = createWaker(() => 0)
  #ended: Promise<void> | undefined

  constructor(deps: { db: Db; observe: Observe; tickSeconds: number; started: () => void }) {
    this.#db = deps.db
    this.#observe = deps.observe
    this.#tickMs = deps.tickSeconds * 1000
    this.#started = deps.started
  }

  start(): void {
    this.#ended = this.#loop()
  }

  /** A schedule was made or changed: the next one due may be another now. */
  wake(): void {
    this.#waker.poke()
  }

  async stop(): Promise<void> {
    this.#waker.stop()
    await this.#ended
  }

  async #loop(): Promise<void> {
    while (!this.#waker.stopped) {
      let pause = this.#tickMs
      try {
        while (!this.#waker.stopped && (await this.#startSome()) === SLICE);
        const wait = await this.#db.fly(SYSTEM, untilNext)
        if (wait !== null) pause = Math.min(pause, Math.max(Number(wait), SHORTEST_PAUSE_MS))
      } catch (error) {
        this.#observe({ level: 'warn', message: 'schedules not looked at', attrs: { error: reasonOf(error) } })
      }
      await this.#waker.wait(pause)
    }
  }

  async #startSome(): Promise<number> {
    const count = await this.#db.tx(SYSTEM, async (tx) => {
      const due = await tx.rows<Schedule & { now: Date }>(dueSchedules(SLICE))
      if (due.length === 0) return 0
      const nextRuns = due.map(({ cronExpr, timezone, now }) => timesOf(cronExpr, timezone).next(now) ?? null)
      await tx.run(
        startDue(
          due.map(({ id }) => id),
          nextRuns,
        ),
      )
      return due.length
    })
    if (count > 0) this.#started()
    return count
  }
}
