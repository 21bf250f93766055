import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../db.ts'
import { type LogMoment, lastRead, momentOf } from './sql.ts'

/** A moment of the past: transactions from `bound` on began to write later, and have ids above `lastId`. */
type Sample = { readonly bound: bigint; readonly lastId: bigint }

const MAX_SAMPLES = 64
const FIRST_WAIT_MS = 5
const MAX_WAIT_MS = 250
/** When transactions of other databases are told apart, which is dearer. */
const CAREFUL_FROM_MS = 80

/**
 * Up to which id the log is complete. Ids are given out in the order of time, one by one, but a transaction that took a
 * small one may commit late. A transaction has its own number before it takes an id; so whoever was not yet running at
 * some moment takes ids above the last one of that moment. The newest remembered moment before which nobody who is
 * running now had begun tells how far everything is settled: what is there is committed, what is missing never comes.
 */
export class Settled {
  readonly #db: Db
  #samples: Sample[] = []
  #upTo = 0n
  #isKnown = false
  #seen = 0n
  #wait = FIRST_WAIT_MS

  constructor(db: Db) {
    this.#db = db
  }

  get upTo(): string {
    return this.#upTo.toString()
  }

  /** The last id that was given out at the last look. */
  get seen(): bigint {
    return this.#seen
  }

  /** False until a moment is known before which nobody who is running had begun: `upTo` may then lie far behind. */
  hasReached(id: bigint): boolean {
    return this.#isKnown && this.#upTo >= id
  }

  /** Another life of the database may answer next: its moments are not comparable with those of this one. */
  forget(): void {
    this.#samples = []
    this.#upTo = 0n
    this.#isKnown = false
  }

  /** Looks again. Answers how soon to look next; undefined when nothing is waiting. */
  async look(): Promise<number | undefined> {
    const careful = !this.#isKnown || this.#wait >= CAREFUL_FROM_MS
    // What a durable reader has passed was settled for somebody.
    if (!this.#isKnown) this.#upTo = BigInt((await this.#db.fly(SYSTEM, lastRead)) ?? 0)
    // Nothing new: no transaction number is spent on it. Ids that went back, as after a restore, are something new.
    const known = this.#samples.at(-1)?.lastId
    const [moment] = await this.#db.rows<LogMoment>(SYSTEM, momentOf({ known, careful }))
    if (!moment) return undefined
    const last = BigInt(moment.last)
    this.#seen = last
    const oldest = BigInt(moment.oldest)
    if (moment.bound !== null) this.#samples.push({ bound: BigInt(moment.bound), lastId: last })
    const newest = this.#samples.findLastIndex(({ bound }) => bound <= oldest)
    const settled = this.#samples[newest]
    if (settled) {
      this.#isKnown = true
      this.#upTo = settled.lastId
    }
    // Older moments say less; of too many newer ones every second is enough.
    this.#samples = this.#samples.slice(Math.max(newest, 0))
    if (this.#samples.length > MAX_SAMPLES) this.#samples = this.#samples.filter((_, i) => i % 2 === 0)
    if (this.#upTo === last) {
      this.#wait = FIRST_WAIT_MS
      return undefined
    }
    const wait = this.#wait
    this.#wait = Math.min(MAX_WAIT_MS, wait * 2)
    return wait
  }
}
