import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../db.ts'
import { type Holder, oldestWriters } from './sql.ts'

/** From then on the operator should know, and is told how it goes on this often. */
const WORTH_NAMING_MS = 2_000
const LOOK_AGAIN_MS = 1_000

/** What keeps the log from being settled: nothing newer is read before it ends. */
export class HoldUp {
  readonly #db: Db
  readonly #observe: Observe
  #since: number | undefined
  #lookedAt = 0
  #holders: readonly Holder[] = []

  constructor(db: Db, observe: Observe) {
    this.#db = db
    this.#observe = observe
  }

  get seconds(): number {
    return this.#since === undefined ? 0 : (performance.now() - this.#since) / 1000
  }

  get warnings(): string[] {
    if (this.seconds * 1000 < WORTH_NAMING_MS) return []
    const by =
      this.#holders.length === 0 ? 'a transaction that the server may not see' : this.#holders.map(named).join(', ')
    return [
      `the change log is held up for ${Math.floor(this.seconds)} s by ${by}: realtime, webhooks, audit and embeddings wait for the end of it`,
    ]
  }

  /** Call after each look at the log. */
  async follow(isSettled: boolean): Promise<void> {
    const now = performance.now()
    if (isSettled) {
      this.#since = undefined
      this.#holders = []
      return
    }
    this.#since ??= now
    if (now - this.#since < WORTH_NAMING_MS || now - this.#lookedAt < LOOK_AGAIN_MS) return
    this.#lookedAt = now
    const isFirst = this.#holders.length === 0
    this.#holders = await this.#db.rows<Holder>(SYSTEM, oldestWriters(WORTH_NAMING_MS / 1000))
    const [first] = this.#holders
    if (isFirst && first) this.#observe({ message: 'change log: held up', attrs: { by: named(first) } })
  }
}

const named = ({ what, role, name, state, seconds }: Holder): string =>
  `${what} of ${role || 'an unknown role'}${name ? `, ${JSON.stringify(name)}` : ''}, ${state || 'at work'}, open for ${seconds} s`
