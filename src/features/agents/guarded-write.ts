import type { CancelSignal } from '../../core/cancel-signal.ts'
import type { Identity } from '../../core/identity.ts'
import { parseKeepingDigits } from '../../core/json-digits.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { DryRun, DryRuns, TriedWrite, TriesWrites } from '../../db/history/dry-run.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import { viewerOf } from '../../db/schema/viewer.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { type Difference, differenceOf, writtenBetween } from './difference.ts'
import { type AboutWrite, hasGenerated, type RunValues, valuesOf } from './generated.ts'
import { aboutWrite, actsAtOnce, type WrittenRows, writtenRows } from './sql.ts'

export type GuardDeps = { db: Db; schema: SchemaCache; key: string; dryRuns: DryRuns }

/** Sees the difference inside the transaction that made it: true commits it, false rolls it back. */
export type Decide = (tx: Tx, difference: Difference, run: DryRun) => Promise<boolean>

export type GuardOptions = {
  signal: CancelSignal
  /** What it calls; see svc.acts_at_once(). */
  functions: readonly number[]
  /** Commits only what was shown before: nothing that others commit meanwhile may come between its two runs. */
  isCompared: boolean
}

/** One run of a write, and what the transaction knows of it. */
type Look<T> = { answer: T; run: DryRun; about: AboutWrite; rows: readonly [WrittenRows[], WrittenRows[]] }

/** A write whose difference is looked at before it is committed, in the same transaction. */
export class GuardedWrite {
  readonly #deps: GuardDeps
  readonly #who: Identity
  readonly #options: GuardOptions
  readonly #decide: Decide

  constructor(deps: GuardDeps, who: Identity, options: GuardOptions, decide: Decide) {
    this.#deps = deps
    this.#who = who
    this.#options = options
    this.#decide = decide
  }

  /** Runs `work` in a transaction of its own connection. Its answer is that of what was rolled back, too. */
  async run<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const { db } = this.#deps
    const { signal, isCompared } = this.#options
    let done: { answer: T } | undefined
    const inside = async (tx: Tx): Promise<T> => {
      const { look, earlier } = await this.#lookTwice(tx, work)
      const { answer, run, about, rows } = look
      const difference = differenceOf(run, about, rows, earlier, this.#deps.schema.read(), viewerOf(this.#who))
      if (await this.#decide(tx, difference, run)) return answer
      done = { answer }
      throw new Unwanted()
    }
    try {
      return await db.tx(this.#who, inside, { apart: true, signal, isRepeatable: isCompared })
    } catch (error) {
      if (error instanceof Unwanted && done) return done.answer
      throw error
    }
  }

  /** Where the database may have generated something, the write is taken back and made again: what was copied is the same then. */
  async #lookTwice<T>(
    tx: Tx,
    work: (tx: Tx) => Promise<T>,
  ): Promise<{ look: Look<T>; earlier: RunValues | undefined }> {
    await tx.run(sql`savepoint svc_first`)
    const first = await this.#look(tx, work)
    const { logged } = first.run
    const tables = [...new Set([...logged.map(({ oid }) => oid), ...writtenBetween(...first.rows).keys()])]
    const isOnce =
      !hasGenerated(logged, first.about) || (await tx.fly(actsAtOnce(this.#options.functions, tables))) === 'true'
    if (isOnce) return { look: first, earlier: undefined }
    await tx.run(sql`rollback to savepoint svc_first`)
    return { look: await this.#look(tx, work), earlier: valuesOf(logged) }
  }

  async #look<T>(tx: Tx, work: (tx: Tx) => Promise<T>): Promise<Look<T>> {
    const { dryRuns, key } = this.#deps
    const run = dryRuns.watch(this.#who, this.#options.signal)
    const before = await tx.rows<WrittenRows>(writtenRows(key))
    const since = await run.begin(tx)
    const answer = await work(tx)
    await run.finish(tx, since)
    const after = await tx.rows<WrittenRows>(writtenRows(key))
    const tables = [...new Set(run.logged.map(({ oid }) => oid))]
    const about = parseKeepingDigits((await tx.fly(aboutWrite(key, tables))) ?? '{}') as AboutWrite
    return { answer, run, about, rows: [before, after] }
  }

  /** For handlers that can try: their one flight is the transaction. */
  readonly tried: TriedWrite = {
    told: '"changes":[]',
    db: { fly: ((_who: Identity, statements: Sql) => this.run((tx) => tx.fly(statements))) as Db['fly'] },
  }
}

/** Thrown to roll back. */
class Unwanted extends Error {}

/** Hands handlers the write that their call is for. */
export class GuardedWrites implements TriesWrites {
  readonly #bySignal = new WeakMap<CancelSignal, TriedWrite>()

  /** The signal is that of one call alone. */
  expect(signal: CancelSignal, write: TriedWrite): void {
    this.#bySignal.set(signal, write)
  }

  start(_who: Identity, signal: CancelSignal): TriedWrite {
    const write = this.#bySignal.get(signal)
    if (!write) throw new TypeError('no write is expected of this call')
    return write
  }
}
