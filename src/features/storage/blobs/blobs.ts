import type { Readable } from 'node:stream'
import { reasonOf } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import type { ObservedMessage } from '../../../core/observations.ts'
import type { Observe } from '../../../core/observe.ts'
import { isBackupUnderWay } from '../../../db/backup/running.ts'
import type { Db } from '../../../db/db.ts'
import type { Queue } from '../../../db/queue/queue.ts'
import type { Sql } from '../../../db/sql.ts'
import type { ByteRange } from '../../../http/files/conditions.ts'
import type { ByteSource } from '../../../http/files/source.ts'
import { forgetBlobs, unknownBlobs } from './sql.ts'
import type { Blob, Store } from './store.ts'
import { storeBytes } from './store-bytes.ts'

const REMOVE = 'blobs.remove'
/** Longer than any transaction lives after its connection was lost. */
const SETTLE_MS = 300_000

/** A backup under way may have their rows. */
const RETRY_SECONDS = 60

type Deps = {
  db: Db
  store: Store
  queue: Queue
  observe: Observe
  /** How long bytes outlive their rows, for backups that have the rows. */
  keepSeconds: number
  /** Copies the bytes of an upload elsewhere before its row is written. */
  mirror: (blob: Blob) => Promise<void> | undefined
}
type Removal = { ids: string[]; isLate?: true }

/**
 * Stored bytes and their rows: bytes are durable before their row is committed, and are removed after it is deleted.
 * A crash in between leaves bytes without a row, which the orphan sweep removes.
 */
export class Blobs {
  readonly #deps: Deps
  #sweepTimer: NodeJS.Timeout | undefined
  /** Blobs whose transaction ended without an answer, and when they are looked for. */
  readonly #unsettled = new Map<string, number>()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  start(): void {
    const { store, queue } = this.#deps
    store.start?.()
    queue.work(REMOVE, { concurrency: 2, leaseSeconds: 60, retryDelays: [5, 30, 300, 3600] }, ({ payload }) =>
      this.#removeWhenDue(payload as Removal),
    )
    const sweep = (): void => {
      store.removeUnfinished().catch((error: unknown) => this.#report('unfinished uploads not removed', error))
      this.#removeUnkept().catch((error: unknown) => this.#report('upload not discarded', error))
    }
    this.#sweepTimer = setInterval(sweep, store.unfinishedSweepMs).unref()
  }

  async stop(): Promise<void> {
    clearInterval(this.#sweepTimer)
    await this.#deps.store.stop()
  }

  /** Hashes while storing; resolves when the bytes are durable. */
  async receive(source: Readable): Promise<Blob> {
    const blob = await storeBytes(this.#deps.store, source)
    try {
      await this.#deps.mirror(blob)
    } catch (error) {
      await this.discard(blob)
      throw error
    }
    return blob
  }

  /** Undefined when the blob was removed since its row was read. */
  read(id: string, range: ByteRange): Promise<ByteSource | undefined> {
    return this.#deps.store.read(id, range)
  }

  /** Removes a blob that no row will refer to; if that fails, the orphan sweep removes it later. */
  async discard({ id }: Blob): Promise<void> {
    await this.#deps.store.remove(id).catch((error: unknown) => this.#report('upload not discarded', error))
  }

  /** Removes a blob if no row refers to it after a while; if the process ends before, the orphan sweep does. */
  discardUnlessKept({ id }: Blob): void {
    this.#unsettled.set(id, Date.now() + SETTLE_MS)
  }

  async #removeUnkept(): Promise<void> {
    const due = [...this.#unsettled].filter(([, at]) => at <= Date.now()).map(([id]) => id)
    if (due.length === 0) return
    const unkept = await this.#deps.db.rows<{ id: string }>(SYSTEM, unknownBlobs(due))
    for (const id of due) this.#unsettled.delete(id)
    for (const { id } of unkept) await this.#deps.store.remove(id)
  }

  /** Resolves to a statement that queues the removal for later. */
  async #removeWhenDue({ ids, isLate }: Removal): Promise<Sql | undefined> {
    const { db, queue, keepSeconds } = this.#deps
    const later: Removal = { ids, isLate: true }
    if (keepSeconds > 0 && !isLate) return queue.push(REMOVE, later, { delaySeconds: keepSeconds })
    if ((await db.run(SYSTEM, isBackupUnderWay)) > 0) return queue.push(REMOVE, later, { delaySeconds: RETRY_SECONDS })
    await this.#remove(ids)
    return undefined
  }

  async #remove(ids: readonly string[]): Promise<void> {
    const { db, store } = this.#deps
    for (const { id } of await db.rows<{ id: string }>(SYSTEM, forgetBlobs(ids))) await store.remove(id)
  }

  #report(message: ObservedMessage, error: unknown): void {
    this.#deps.observe({ message, attrs: { error: reasonOf(error) } })
  }
}
