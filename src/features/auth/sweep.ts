import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import { Loop } from '../../db/loop.ts'
import { expiredOfAuth, expiredSessions, isFullSlice, removeSlice } from './expired.ts'

const FIRST_MS = 10_000
const EVERY_MS = 10 * 60_000
/** Between slices of a large backlog, which may take its time. */
const PAUSE_MS = 100

/** What is over does not stay: tables that only grow would make every sign-in slower. */
export class Sweep {
  readonly #db: Db
  readonly #observe: Observe
  #loop: Loop | undefined

  constructor({ db, observe }: { db: Db; observe: Observe }) {
    this.#db = db
    this.#observe = observe
  }

  start(): void {
    this.#loop = new Loop({
      step: () => this.#turn(),
      everyMs: EVERY_MS,
      firstMs: FIRST_MS,
      onFailure: (error) =>
        this.#observe({ level: 'warn', message: 'sweep failed, will try again', attrs: { error: reasonOf(error) } }),
    })
  }

  async stop(): Promise<void> {
    await this.#loop?.stop()
  }

  /** One slice of each table; more of them soon if there is more. */
  async #turn(): Promise<number | undefined> {
    let hasMore = false
    for (const expired of [expiredSessions, ...expiredOfAuth]) {
      if (this.#loop?.stopped) return undefined
      hasMore = isFullSlice(await this.#db.run(SYSTEM, removeSlice(expired))) || hasMore
    }
    return hasMore ? PAUSE_MS : undefined
  }
}
