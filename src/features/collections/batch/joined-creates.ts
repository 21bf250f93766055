import type { CancelSignal } from '../../../core/cancel-signal.ts'
import type { Identity } from '../../../core/identity.ts'
import type { ChangeLog } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import { failedStatement, isServerTrouble } from '../../../db/pg-errors.ts'
import type { KnownStatements } from '../../../db/rows/known-statements.ts'
import type { Place } from '../../../db/rows/place.ts'
import type { Column, Table } from '../../../db/schema/snapshot.ts'
import { shapeOf } from '../write/write.ts'
import { createsStatement, rowTexts } from './statements.ts'

/** One row that a request wants to be made. */
export type Create = {
  readonly who: Identity
  readonly place: Place
  readonly columns: readonly Column[]
  readonly body: string
  readonly cancelSignal: CancelSignal
}

/** The new record as JSON text, or null if a trigger swallowed it. */
type MakeRow = (create: Create) => Promise<string | null>

type Waiting = Create & { readonly resolve: (text: string | null) => void; readonly reject: (error: unknown) => void }

/** Creates of one caller that differ in their values alone. */
type Alike = { atWork: number; waiting: Waiting[]; timer: NodeJS.Timeout | undefined; aloneUntil: number }

/** Flights of alike creates before the next ones wait for each other: PostgreSQL has one while Node answers the other. */
const FLIGHTS = 2
/** As long as a flight takes. Whoever waited for it flies, however many are at work. */
const PATIENCE_MS = 2
/** Nobody waits for the lock that somebody else's row needs: each then waits for its own. */
const LOCK_TIMEOUT_MS = 10
const MOST_ROWS = 64
const LONGEST_BODY = 4 * 1024
/** Once rows were refused, so that who sends bad ones does not make everybody's fly twice all the time. */
const ALONE_FOR_MS = 250

/**
 * Creates that arrive together become one statement: a session, a look for triggers and a commit cost as much for
 * thirty rows as for one. See docs/decisions/0110-creates-that-arrive-together.md.
 */
export class JoinedCreates {
  readonly #db: Db
  readonly #known: KnownStatements
  readonly #log: Pick<ChangeLog, 'appender' | 'wake'>
  readonly #alone: MakeRow
  readonly #byCaller = new WeakMap<Identity, Map<string, Alike>>()

  /** `alone` makes a row in a flight of its own. */
  constructor(db: Db, known: KnownStatements, log: Pick<ChangeLog, 'appender' | 'wake'>, alone: MakeRow) {
    this.#db = db
    this.#known = known
    this.#log = log
    this.#alone = alone
  }

  make(create: Create): Promise<string | null> {
    return mayShare(create) ? this.#share(create) : this.#alone(create)
  }

  #share(create: Create): Promise<string | null> {
    const key = `${create.place.table.oid} ${shapeOf(create.columns)}`
    const ofCaller = this.#byCaller.get(create.who) ?? new Map<string, Alike>()
    const alike = ofCaller.get(key) ?? { atWork: 0, waiting: [], timer: undefined, aloneUntil: 0 }
    this.#byCaller.set(create.who, ofCaller)
    ofCaller.set(key, alike)
    const over = (): void => {
      alike.atWork--
      if (alike.waiting.length > 0) this.#depart(alike, over)
      else if (alike.atWork === 0) ofCaller.delete(key)
    }
    if (alike.atWork < FLIGHTS || alike.aloneUntil > performance.now() || !isOfSameSnapshot(alike.waiting, create)) {
      alike.atWork++
      return this.#alone(create).finally(over)
    }
    return new Promise((resolve, reject) => {
      alike.waiting.push({ ...create, resolve, reject })
      if (alike.waiting.length === MOST_ROWS) this.#depart(alike, over)
      else alike.timer ??= setTimeout(() => this.#depart(alike, over), PATIENCE_MS)
    })
  }

  #depart(alike: Alike, over: () => void): void {
    clearTimeout(alike.timer)
    alike.timer = undefined
    const creates = alike.waiting
    alike.waiting = []
    alike.atWork++
    void this.#together(creates, () => {
      alike.aloneUntil = performance.now() + ALONE_FOR_MS
    }).finally(over)
  }

  async #together(creates: readonly Waiting[], onRefused: () => void): Promise<void> {
    const [first] = creates
    if (!first || creates.length === 1) return this.#each(creates)
    const { who, place, columns } = first
    try {
      const bodies = creates.map(({ body }) => body)
      const statement = createsStatement(this.#known, place, columns, bodies, this.#log.appender(who))
      const signal = new AllGone(creates.map(({ cancelSignal }) => cancelSignal))
      const answer = await this.#db.fly(who, statement, { signal, plain: true, lockTimeoutMs: LOCK_TIMEOUT_MS })
      this.#log.wake()
      const texts = rowTexts(answer ?? '', creates.length)
      for (const [i, { resolve }] of creates.entries()) resolve(String(texts[i]))
    } catch (error) {
      const isRefused = failedStatement(error) !== undefined && !isServerTrouble(error)
      // Otherwise nobody knows whether the rows were made.
      if (isRefused) {
        onRefused()
        await this.#each(creates)
      } else for (const { reject } of creates) reject(error)
    }
  }

  async #each(creates: readonly Waiting[]): Promise<void> {
    await Promise.all(creates.map((create) => this.#alone(create).then(create.resolve, create.reject)))
  }
}

/** Rows that take long are made one by one: those with code of the operator, or with policies that look into tables. */
const mayShare = ({ place: { table }, body }: Create): boolean =>
  !table.runsUserCode && body.length <= LONGEST_BODY && !asksTables(table)

const asksTables = ({ rlsPolicies }: Table): boolean =>
  rlsPolicies.some(({ usingExpr, withCheckExpr }) => /\bselect\b/i.test(`${usingExpr} ${withCheckExpr}`))

const isOfSameSnapshot = ([first]: readonly Create[], { place }: Create): boolean =>
  first === undefined || first.place.table === place.table

/** Those who share a flight are gone when the last of them is. */
class AllGone implements CancelSignal {
  readonly #each: readonly CancelSignal[]
  #heard: (() => void) | undefined

  constructor(each: readonly CancelSignal[]) {
    this.#each = each
  }

  get aborted(): boolean {
    return this.#each.every(({ aborted }) => aborted)
  }

  readonly #left = (): void => {
    if (this.aborted) this.#heard?.()
  }

  addEventListener(event: 'abort', heard: () => void): void {
    this.#heard = heard
    for (const cancelSignal of this.#each) cancelSignal.addEventListener(event, this.#left, { once: true })
  }

  removeEventListener(event: 'abort'): void {
    this.#heard = undefined
    for (const cancelSignal of this.#each) cancelSignal.removeEventListener(event, this.#left)
  }
}
