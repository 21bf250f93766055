import { entryCache } from '../../core/entry-cache.ts'
import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import { Loop } from '../../db/loop.ts'
import { CronTimes } from './cron.ts'
import { dueSchedules, type Schedule, startDue, untilNext } from './schedule-sql.ts'

type DueSchedule = Schedule & { now: Date }

const SLICE = 200
/** Avoids a busy loop while another process holds the due rows. */
const SHORTEST_PAUSE_MS = 200

/** Parsing an expression and a time zone takes a millisecond, and every tick needs the same ones. */
const parsedCrons = entryCache<CronTimes>(1000)

export function timesOf(cronExpr: string, timezone: string): CronTimes {
  const key = `${timezone} ${cronExpr}`
  const times = parsedCrons.get(key) ?? new CronTimes(cronExpr, timezone)
  parsedCrons.set(key, times)
  return times
}

/**
 * Queues a job for each due schedule, once over all processes, by the database's clock. The next run is computed from
 * now, so several missed runs become one.
 */
export class JobScheduler {
  readonly #db: Db
  readonly #observe: Observe
  readonly #tickMs: number
  readonly #onQueued: () => void
  #loop: Loop | undefined

  constructor(deps: { db: Db; observe: Observe; tickSeconds: number; onQueued: () => void }) {
    this.#db = deps.db
    this.#observe = deps.observe
    this.#tickMs = deps.tickSeconds * 1000
    this.#onQueued = deps.onQueued
  }

  start(): void {
    this.#loop = new Loop({
      step: () => this.#tick(),
      everyMs: this.#tickMs,
      onFailure: (error) => this.#observe({ message: 'schedules not looked at', attrs: { error: reasonOf(error) } }),
    })
  }

  /** Call after a schedule was created or changed, because the next due time may be earlier now. */
  wake(): void {
    this.#loop?.poke()
  }

  async stop(): Promise<void> {
    await this.#loop?.stop()
  }

  /** Resolves to the milliseconds until the next tick. */
  async #tick(): Promise<number> {
    const count = await this.#startSome()
    if (count > 0) this.#onQueued()
    if (count === SLICE) return 0
    const wait = await this.#db.fly(SYSTEM, untilNext)
    return wait === null ? this.#tickMs : Math.min(this.#tickMs, Math.max(Number(wait), SHORTEST_PAUSE_MS))
  }

  #startSome(): Promise<number> {
    return this.#db.tx(SYSTEM, async (tx) => {
      const due = await tx.rows<DueSchedule>(dueSchedules(SLICE))
      if (due.length === 0) return 0
      const ids = due.map(({ id }) => id)
      const nextRuns = due.map((schedule) => this.#nextRun(schedule))
      await tx.run(startDue(ids, nextRuns))
      return due.length
    })
  }

  /** A schedule that no longer parses, e.g. after its time zone was removed, is stopped and does not block others. */
  #nextRun({ name, cronExpr, timezone, now }: DueSchedule): Date | null {
    try {
      return timesOf(cronExpr, timezone).next(now) ?? null
    } catch (error) {
      this.#observe({ message: 'schedule runs no more', attrs: { name, error: reasonOf(error) } })
      return null
    }
  }
}
