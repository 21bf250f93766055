import { LRUCache } from 'lru-cache'
import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import { Loop } from '../../db/loop.ts'
import { CronTimes } from './cron.ts'
import { dueSchedules, type Schedule, startDue, untilNext } from './schedule-sql.ts'

type DueSchedule = Schedule & { now: Date }

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
export class JobScheduler {
  readonly #db: Db
  readonly #observe: Observe
  readonly #tickMs: number
  readonly #started: () => void
  #loop: Loop | undefined

  constructor(deps: { db: Db; observe: Observe; tickSeconds: number; started: () => void }) {
    this.#db = deps.db
    this.#observe = deps.observe
    this.#tickMs = deps.tickSeconds * 1000
    this.#started = deps.started
  }

  start(): void {
    this.#loop = new Loop({
      step: () => this.#step(),
      everyMs: this.#tickMs,
      onFailure: (error) => this.#observe({ message: 'schedules not looked at', attrs: { error: reasonOf(error) } }),
    })
  }

  /** A schedule was made or changed: the next one due may be another now. */
  wake(): void {
    this.#loop?.poke()
  }

  async stop(): Promise<void> {
    await this.#loop?.stop()
  }

  /** Answers how long nothing will be due. */
  async #step(): Promise<number> {
    const count = await this.#startSome()
    if (count > 0) this.#started()
    if (count === SLICE) return 0
    const wait = await this.#db.fly(SYSTEM, untilNext)
    return wait === null ? this.#tickMs : Math.min(this.#tickMs, Math.max(Number(wait), SHORTEST_PAUSE_MS))
  }

  #startSome(): Promise<number> {
    return this.#db.tx(SYSTEM, async (tx) => {
      const due = await tx.rows<DueSchedule>(dueSchedules(SLICE))
      if (due.length === 0) return 0
      const ids = due.map(({ id }) => id)
      await tx.run(
        startDue(
          ids,
          due.map((schedule) => this.#nextRun(schedule)),
        ),
      )
      return due.length
    })
  }

  /** One that nobody understands any more, such as a time zone that is no more, does not hold up the others. */
  #nextRun({ name, cronExpr, timezone, now }: DueSchedule): Date | null {
    try {
      return timesOf(cronExpr, timezone).next(now) ?? null
    } catch (error) {
      this.#observe({ message: 'schedule runs no more', attrs: { name, error: reasonOf(error) } })
      return null
    }
  }
}
