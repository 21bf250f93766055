import { sleep } from '../../core/clock.ts'
import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { KeyedLimit } from '../../core/limits.ts'
import type { WordsBetween } from '../../core/observations.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../db.ts'
import type { Sql } from '../sql.ts'
import { GiveUp, RetryIn } from './failure.ts'
import {
  asyncCommit,
  type ClaimedItem,
  DIED_IN_EVERY_ATTEMPT,
  genericPlan,
  type ItemClaim,
  type QueueRows,
  queueRows,
} from './rows.ts'

const LONGEST_BACK_OFF_MS = 5000
const KEPT_ERROR_CHARACTERS = 1000
/** Items whose result is being written free their slot, up to this many for each slot. */
const SETTLING_PER_SLOT = 4
/** Leases are shorter than `leaseSeconds`, so that another process can notice the end and start within that time. */
const HELD_PART = 5 / 6

/** `attempt` is 1 for the first run. */
export type Item = ClaimedItem & { readonly worker: string }
/** May resolve to a statement, which is committed together with the removal of the item. */
export type Handler = (item: Item, signal: AbortSignal) => Promise<Sql | undefined> | Promise<void>

export type WorkOptions = {
  /** Items of this kind at a time in this process. */
  concurrency: number
  /** Items of a dead process run again within this time. */
  leaseSeconds: number
  /** Between renewals of a lease; default a third of it. */
  heartbeatMs?: number
  /** Seconds before each retry, or a function of the failed attempt; without one the item is dead. */
  retryDelays: readonly number[] | ((item: Item, attempt: number) => number | undefined)
  /** Items of one group at a time in this process. */
  perGroup?: number
  /** Called for an item that failed for good, just before its row is removed. */
  onDead?: (item: Item, error: unknown) => Promise<void> | void
  /** A stop waits for the handler, because its effect, such as a mail, cannot be undone. */
  finishes?: true | ((item: Item) => boolean)
  /** The table of the items; default svc.queue, which removes finished items. */
  rows?: QueueRows
}

type RunningItem = ClaimedItem & {
  /** Frees its slot. */
  release: () => void
  controller: AbortController
  finishes: boolean
  ended: Promise<void>
}
type DoneItem = { claim: ItemClaim; item: RunningItem; settled: () => void }

/** What a worker needs of its queue. */
export type WorkerHost = {
  db: Db
  observe: Observe
  /** Identifies this process in the rows it has claimed. */
  workerId: string
  isStopping(): boolean
  onFailure(what: WordsBetween<'queue: ', ' failed'>, error: unknown): void
  /** A statement succeeded. */
  onSuccess(): void
}

/** Claims and runs the items of one kind in this process, and writes the results. */
export class Worker {
  readonly kind: string
  readonly rows: QueueRows
  readonly #options: WorkOptions
  readonly #handler: Handler
  readonly #host: WorkerHost
  /** Items whose handler runs or whose result is being written. */
  readonly #running = new Map<string, RunningItem>()
  readonly #perGroup: number
  readonly #slots: KeyedLimit
  readonly #leaseSeconds: number
  /** Undefined until the worker starts. */
  #beat: NodeJS.Timeout | undefined
  #done: DoneItem[] = []
  #isWriting = false
  #claiming: Promise<void> | undefined
  /** `wake` was called during a claim. */
  #claimAgain = false
  /** The last claim may have left due items, because the slots or those of a group were full. */
  #hasMore = false

  constructor(kind: string, options: WorkOptions, handler: Handler, host: WorkerHost) {
    this.kind = kind
    this.rows = options.rows ?? queueRows
    this.#options = options
    this.#handler = handler
    this.#host = host
    this.#perGroup = options.perGroup ?? options.concurrency
    this.#slots = new KeyedLimit({ total: options.concurrency, perKey: this.#perGroup })
    this.#leaseSeconds = options.leaseSeconds * HELD_PART
  }

  /** Claims when it is woken. */
  start(): void {
    const beat = () => void this.#heartbeat().catch((error: unknown) => this.#host.onFailure('heartbeat', error))
    const { leaseSeconds, heartbeatMs = (leaseSeconds * 1000) / 3 } = this.#options
    this.#beat = setInterval(beat, heartbeatMs).unref()
  }

  /** Items that a stop waits for. */
  get finishingIds(): string[] {
    return [...this.#running.values()].filter(({ finishes }) => finishes).map(({ id }) => id)
  }

  wake(): void {
    if (!this.#beat || this.#host.isStopping()) return
    if (this.#claiming) this.#claimAgain = true
    else this.#claiming = this.#claim()
  }

  /** Aborts interruptible items, also those of a claim under way; resolves when they have ended. */
  async interrupt(): Promise<void> {
    this.#abortRunning()
    await this.#claiming
    await Promise.all(this.#abortRunning().map(({ ended }) => ended))
  }

  #abortRunning(): RunningItem[] {
    const interrupted = [...this.#running.values()].filter(({ finishes }) => !finishes)
    for (const { controller } of interrupted) controller.abort()
    return interrupted
  }

  /** Resolves when the items of `finishingIds` have ended. */
  async finished(): Promise<void> {
    await Promise.all([...this.#running.values()].filter(({ finishes }) => finishes).map(({ ended }) => ended))
  }

  stop(): void {
    clearInterval(this.#beat)
  }

  async #claim(): Promise<void> {
    try {
      do {
        // Items that end in the same turn of the event loop share one claim.
        await nextTurn()
        this.#claimAgain = false
        await this.#claimOnce()
      } while (this.#claimAgain && !this.#host.isStopping())
    } catch (error) {
      this.#hasMore = true
      this.#host.onFailure('claim', error)
    } finally {
      this.#claiming = undefined
    }
  }

  async #claimOnce(): Promise<void> {
    const { db, workerId, isStopping, onSuccess } = this.#host
    const [{ free, taken, counts: running }, perGroup, leaseSeconds] = [this.#slots, this.#perGroup, this.#leaseSeconds]
    const settling = this.#running.size - taken
    this.#hasMore = true
    if (isStopping() || free <= 0 || settling >= SETTLING_PER_SLOT * this.#options.concurrency) return
    const items = await db.rows<ClaimedItem>(SYSTEM, [
      asyncCommit,
      this.rows.claim({ kind: this.kind, worker: workerId, free, perGroup, leaseSeconds, running }),
    ])
    onSuccess()
    for (const claimed of items) this.#start(claimed)
    const isGroupFull = [...running.values()].some((count) => count >= perGroup)
    this.#hasMore = this.#running.size > 0 && (items.length >= free || isGroupFull)
  }

  #start(claimed: ClaimedItem): void {
    const { observe, workerId } = this.#host
    const { finishes = false } = this.#options
    const item: RunningItem = {
      ...claimed,
      // A claim never exceeds the free slots, in total or of a group.
      release: this.#slots.tryAcquire(claimed.group) ?? (() => {}),
      controller: new AbortController(),
      finishes: typeof finishes === 'function' ? finishes({ ...claimed, worker: workerId }) : finishes,
      ended: Promise.resolve(),
    }
    // The lease ran out in an outage and this process claimed the item again.
    this.#running.get(item.id)?.controller.abort()
    this.#running.set(item.id, item)
    item.ended = this.#run(item)
      .catch((error: unknown) => {
        observe({ message: 'queue: item not settled', attrs: { id: item.id, error: reasonOf(error) } })
      })
      .finally(() => {
        if (this.#running.get(item.id) === item) this.#running.delete(item.id)
        if (this.#hasMore) this.wake()
      })
  }

  #delayAfter(item: Item, attempt: number): number | undefined {
    const { retryDelays } = this.#options
    return typeof retryDelays === 'function' ? retryDelays(item, attempt) : retryDelays[attempt - 1]
  }

  async #attempt(item: Item, signal: AbortSignal): Promise<{ statement?: Sql; error?: Error }> {
    // Every attempt ended with its process: do not run the item again.
    if (item.attempt > 1 && this.#delayAfter(item, item.attempt - 1) === undefined) {
      return { error: new GiveUp(DIED_IN_EVERY_ATTEMPT) }
    }
    try {
      const statement = await this.#handler(item, signal)
      return statement ? { statement } : {}
    } catch (error) {
      return { error: error instanceof Error ? error : new Error(String(error)) }
    }
  }

  async #run(running: RunningItem): Promise<void> {
    const { observe, workerId } = this.#host
    const { controller, id, group, payload, attempt, maxAttempts } = running
    const item: Item = { id, group, payload, attempt, maxAttempts, worker: workerId }
    const claim: ItemClaim = { id, worker: workerId, attempt }
    const { error, statement } = await this.#attempt(item, controller.signal)
    running.release()
    if (this.#hasMore) this.wake()
    if (error === undefined) {
      return statement ? this.#settle(running, [statement, this.rows.done([claim])]) : this.#settleDone(running, claim)
    }
    // Interrupted by a stop or claimed by another process: not a failure of the item.
    if (controller.signal.aborted) return
    const planned = this.#delayAfter(item, attempt)
    const delay = error instanceof RetryIn ? error.seconds : planned
    const attrs = { kind: this.kind, id, attempt, error: reasonOf(error) }
    const kept = reasonOf(error).replaceAll('\0', '').slice(0, KEPT_ERROR_CHARACTERS)
    if (planned !== undefined && delay !== undefined && !(error instanceof GiveUp)) {
      observe({ message: 'queue: item failed, will retry', attrs })
      return this.#settle(running, [this.rows.retry(claim, delay, kept)])
    }
    observe({ message: 'queue: item is dead', attrs })
    try {
      await this.#options.onDead?.(item, error)
    } catch (thrown) {
      observe({ message: 'queue: onDead failed', attrs: { ...attrs, error: reasonOf(thrown) } })
    }
    return this.#settle(running, [this.rows.bury(claim, kept)])
  }

  /** Items that end during a write share the next commit. */
  #settleDone(item: RunningItem, claim: ItemClaim): Promise<void> {
    return new Promise((settled) => {
      this.#done.push({ claim, item, settled })
      if (this.#isWriting) return
      this.#isWriting = true
      setImmediate(() => void this.#settleTogether())
    })
  }

  async #settleTogether(): Promise<void> {
    while (this.#done.length > 0) {
      const done = this.#done
      this.#done = []
      const isAbandoned = (): boolean => done.every(({ item }) => item.controller.signal.aborted)
      await this.#write([genericPlan, this.rows.done(done.map(({ claim }) => claim))], isAbandoned)
      for (const { settled } of done) settled()
    }
    this.#isWriting = false
  }

  #settle(item: RunningItem, statements: [Sql, ...Sql[]]): Promise<void> {
    return this.#write(statements, () => item.controller.signal.aborted)
  }

  /** Retries through an outage, so that finished work is not repeated. */
  async #write(statements: [Sql, ...Sql[]], isAbandoned: () => boolean): Promise<void> {
    for (let wait = 100; ; wait = Math.min(wait * 2, LONGEST_BACK_OFF_MS)) {
      try {
        await this.#host.db.run(SYSTEM, statements)
        return
      } catch (error) {
        this.#host.onFailure('write', error)
        if (this.#host.isStopping() || isAbandoned()) return
        await sleep(wait)
      }
    }
  }

  async #heartbeat(): Promise<void> {
    const ids = [...this.#running.keys()]
    if (ids.length === 0) return
    const { db, workerId } = this.#host
    const kept = await db.rows<{ id: string }>(SYSTEM, this.rows.renew(workerId, ids, this.#leaseSeconds))
    const still = new Set(kept.map(({ id }) => id))
    for (const id of ids) if (!still.has(id)) this.#running.get(id)?.controller.abort()
  }
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
