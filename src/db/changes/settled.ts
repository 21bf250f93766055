import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../db.ts'
import { lastRead, momentOf, type SettledRow } from './sql.ts'

/** A moment of the past: transactions from `bound` on began to write later, and have ids above `lastId`. */
type Sample = { readonly bound: bigint; readonly lastId: bigint }

const MAX_SAMPLES = 64
const FIRST_WAIT_MS = 5
const MAX_WAIT_MS = 250
/** From this wait on, transactions of other databases are excluded, which is more expensive. */
const CAREFUL_FROM_MS = 80

/**
 * Up to which id the log is complete. Ids are assigned in order of time, but a transaction that took a small one may
 * commit late. A transaction has its number before it takes an id, so transactions that start after a sample take ids
 * above its `lastId`. Up to the newest sample that is older than all running transactions the log is settled: what is
 * there is committed, and what is missing never comes.
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

  /** The last assigned id at the last poll. */
  get seen(): bigint {
    return this.#seen
  }

  /** False until a sample is older than all running transactions; until then `upTo` may be far too low. */
  hasReached(id: bigint): boolean {
    return this.#isKnown && this.#upTo >= id
  }

  /** After a reconnect it may be another database (restore, failover), whose samples are not comparable. */
  forget(): void {
    this.#samples = []
    this.#upTo = 0n
    this.#isKnown = false
  }

  /** Polls once. Resolves to the milliseconds until the next poll; undefined when everything is settled. */
  async look(): Promise<number | undefined> {
    const careful = !this.#isKnown || this.#wait >= CAREFUL_FROM_MS
    // What a durable reader has passed was settled.
    if (!this.#isKnown) this.#upTo = BigInt((await this.#db.fly(SYSTEM, lastRead)) ?? 0)
    // Without new ids no transaction number is used. Smaller ids, as after a restore, count as new.
    const known = this.#samples.at(-1)?.lastId
    const [moment] = await this.#db.rows<SettledRow>(SYSTEM, momentOf({ known, careful }))
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
    // Older samples are no longer needed; of too many newer ones every second is enough.
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
