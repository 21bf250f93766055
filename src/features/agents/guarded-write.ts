import type { CancelSignal } from '../../core/cancel-signal.ts'
import type { Identity } from '../../core/identity.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { DryRun, DryRuns, TriedWrite, TriesWrites } from '../../db/history/dry-run.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import { viewerOf } from '../../db/schema/viewer.ts'
import type { Sql } from '../../db/sql.ts'
import { type AboutWrite, type Difference, differenceOf } from './difference.ts'
import { aboutWrite, type WrittenRows, writtenRows } from './sql.ts'

export type GuardDeps = { db: Db; schema: SchemaCache; key: string; dryRuns: DryRuns }

/** Sees the difference inside the transaction that made it: true commits it, false rolls it back. */
export type Decide = (tx: Tx, difference: Difference, run: DryRun) => Promise<boolean>

/** A write whose difference is looked at before it is committed, in the same transaction. */
export class GuardedWrite {
  readonly #deps: GuardDeps
  readonly #who: Identity
  readonly #signal: CancelSignal
  readonly #args: string
  readonly #decide: Decide

  constructor(deps: GuardDeps, who: Identity, signal: CancelSignal, args: string, decide: Decide) {
    this.#deps = deps
    this.#who = who
    this.#signal = signal
    this.#args = args
    this.#decide = decide
  }

  /** Runs `work` in a transaction of its own connection. Its answer is that of what was rolled back, too. */
  async run<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const { db, dryRuns, key, schema } = this.#deps
    let done: { answer: T } | undefined
    const inside = async (tx: Tx): Promise<T> => {
      const run = dryRuns.watch(this.#who, this.#signal)
      const before = await tx.rows<WrittenRows>(writtenRows(key))
      const since = await run.begin(tx)
      const answer = await work(tx)
      await run.finish(tx, since)
      const after = await tx.rows<WrittenRows>(writtenRows(key))
      const about = JSON.parse(
        (await tx.fly(
          aboutWrite(
            key,
            run.logged.map(({ oid }) => oid),
          ),
        )) ?? '{}',
      ) as AboutWrite
      const viewer = viewerOf(this.#who)
      const difference = differenceOf(run, about, [before, after], this.#args, schema.read(), viewer)
      if (await this.#decide(tx, difference, run)) return answer
      done = { answer }
      throw new Unwanted()
    }
    try {
      return await db.tx(this.#who, inside, { apart: true, signal: this.#signal })
    } catch (error) {
      if (error instanceof Unwanted && done) return done.answer
      throw error
    }
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
