import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import { expiredOfAuth, expiredSessions, isFullSlice, removeSlice } from './expired.ts'

const EVERY_MS = 10 * 60_000
/** Between slices of a large backlog, which may take its time. */
const PAUSE_MS = 100

/** What is over does not stay: tables that only grow would make every sign-in slower. */
export class Sweep {
  readonly #db: Db
  readonly #observe: Observe
  #timer: NodeJS.Timeout | undefined
  #stopped = false
  #underWay: Promise<void> = Promise.resolve()

  constructor({ db, observe }: { db: Db; observe: Observe }) {
    this.#db = db
    this.#observe = observe
  }

  async start(): Promise<void> {
    await this.#turn()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#underWay
  }

  /** One slice of each table; more of them soon if there is more. */
  async #turn(): Promise<void> {
    let hasMore = false
    try {
      for (const expired of [expiredSessions, ...expiredOfAuth]) {
        if (this.#stopped) return
        hasMore = isFullSlice(await this.#db.run(SYSTEM, removeSlice(expired))) || hasMore
      }
    } catch (error) {
      this.#observe({ level: 'warn', message: 'sweep failed, will try again', attrs: { error: reasonOf(error) } })
    }
    if (this.#stopped) return
    this.#timer = setTimeout(
      () => {
        this.#underWay = this.#turn()
      },
      hasMore ? PAUSE_MS : EVERY_MS,
    ).unref()
  }
}
