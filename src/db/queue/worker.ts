import { sleep } from '../../core/clock.ts'
import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { KeyedLimit } from '../../core/limits.ts'
import type { WordsBetween } from '../../core/observations.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../db.ts'
import type { Sql } from '../sql.ts'
import { GiveUp, RetryIn } from './failure.ts'
import { type ClaimedItem, type ItemClaim, asyncCommit, genericPlan, type QueueRows, queueRows } from './rows.ts'

const LONGEST_BACK_OFF_MS = 5000
const KEPT_ERROR_CHARACTERS = 1000
/** Items whose outcome is being written leave their place to others, up to this many for each place. */
const SETTLING_PER_PLACE = 4
/** The part of the time of a lease for which it is held; the rest is for the others to see that it is over, and to begin. */
const HELD_PART = 5 / 6

/** `attempt` is 1 for the first run. */
export type Item = ClaimedItem & { readonly worker: string }
/** A statement that it resolves to is run together with the removal of the item: both happen or neither. */
export type Handler = (item: Item, signal: AbortSignal) => Promise<Sql | undefined> | Promise<void>

export type WorkOptions = {
  /** Items of this kind at a time in this process. */
  concurrency: number
  /** What a dead process held runs again within this time. */
  leaseSeconds: number
  /** How often a lease is renewed; default every third of it. */
  heartbeatMs?: number
  /** Seconds to wait after each failed run, or after the given one; none left means the item is dead. */
  retryDelays: readonly number[] | ((item: Item, attempt: number) => number | undefined)
  /** Items of one group at a time in this process; the others keep their share. */
  perGroup?: number
  /** Told about an item that failed for good, just before its row is settled. */
  onDead?: (item: Item, error: unknown) => Promise<void> | void
  /** What cannot be taken back, such as a mail under way, is let finish when the server stops. */
  finishes?: true | ((item: Item) => boolean)
  /** Where the items are; default svc.queue, which keeps nothing of what is over. */
  rows?: QueueRows
}

type RunningItem = ClaimedItem & {
  /** Leaves its place to the next item. */
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
  /** Names this process in the rows it holds. */
  workerId: string
  isStopping(): boolean
  onFailure(what: WordsBetween<'queue: ', ' failed'>, error: unknown): void
  /** A statement came through. */
  onSuccess(): void
}

/** The items of one kind in this process: claims them, runs them, and writes down what came of it. */
export class Worker {
  readonly kind: string
  readonly rows: QueueRows
  readonly #options: WorkOptions
  readonly #handler: Handler
  readonly #host: WorkerHost
  /** Those whose handler is at work, and those of which what came of it is being written. */
  readonly #running = new Map<string, RunningItem>()
  readonly #perGroup: number
  readonly #places: KeyedLimit
  readonly #leaseSeconds: number
  /** Of a worker that has started. */
  #beat: NodeJS.Timeout | undefined
  #done: DoneItem[] = []
  #isWriting = false
  #claiming: Promise<void> | undefined
  /** Somebody asked for a claim while one was under way. */
  #again = false
  /** The last claim left work behind: its slots, or the slots of a group, were used up. */
  #more = false

  constructor(kind: string, options: WorkOptions, handler: Handler, host: WorkerHost) {
    this.kind = kind
    this.rows = options.rows ?? queueRows
    this.#options = options
    this.#handler = handler
    this.#host = host
    this.#perGroup = options.perGroup ?? options.concurrency
    this.#places = new KeyedLimit({ total: options.concurrency, perKey: this.#perGroup })
    this.#leaseSeconds = options.leaseSeconds * HELD_PART
  }

  start(): void {
    const beat = () => void this.#heartbeat().catch((error: unknown) => this.#host.onFailure('heartbeat', error))
    const { leaseSeconds, heartbeatMs = (leaseSeconds * 1000) / 3 } = this.#options
    this.#beat = setInterval(beat, heartbeatMs).unref()
    this.wake()
  }

  /** Items that are let finish when the server stops. */
  get finishingIds(): string[] {
    return [...this.#running.values()].filter(({ finishes }) => finishes).map(({ id }) => id)
  }

  wake(): void {
    if (!this.#beat || this.#host.isStopping()) return
    if (this.#claiming) this.#again = true
    else this.#claiming = this.#claim()
  }

  /** Resolves when what can be interrupted has ended, and with it what a claim under way brings. */
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

  /** Resolves when the items that are let finish have ended. */
  async finished(): Promise<void> {
    await Promise.all([...this.#running.values()].filter(({ finishes }) => finishes).map(({ ended }) => ended))
  }

  stop(): void {
    clearInterval(this.#beat)
  }

  async #claim(): Promise<void> {
    try {
      do {
        // Items that end in the same turn of the event loop leave their places to the same claim.
        await nextTurn()
        this.#again = false
        await this.#claimOnce()
      } while (this.#again && !this.#host.isStopping())
    } catch (error) {
      this.#more = true
      this.#host.onFailure('claim', error)
    } finally {
      this.#claiming = undefined
    }
  }

  async #claimOnce(): Promise<void> {
    const { db, workerId, isStopping, onSuccess } = this.#host
    const [{ free, taken, counts: running }, perGroup, leaseSeconds] = [
      this.#places,
      this.#perGroup,
      this.#leaseSeconds,
    ]
    const settling = this.#running.size - taken
    this.#more = true
    if (isStopping() || free <= 0 || settling >= SETTLING_PER_PLACE * this.#options.concurrency) return
    const items = await db.rows<ClaimedItem>(SYSTEM, [
      asyncCommit,
      this.rows.claim({ kind: this.kind, worker: workerId, free, perGroup, leaseSeconds, running }),
    ])
    onSuccess()
    for (const claimed of items) this.#start(claimed)
    const isGroupFull = [...running.values()].some((count) => count >= perGroup)
    this.#more = this.#running.size > 0 && (items.length >= free || isGroupFull)
  }

  #start(claimed: ClaimedItem): void {
    const { observe, workerId } = this.#host
    const { finishes = false } = this.#options
    const item: RunningItem = {
      ...claimed,
      // A claim brings no more than there are places, in all and of a group.
      release: this.#places.tryAcquire(claimed.group) ?? (() => {}),
      controller: new AbortController(),
      finishes: typeof finishes === 'function' ? finishes({ ...claimed, worker: workerId }) : finishes,
      ended: Promise.resolve(),
    }
    // Our own lease ran out in an outage and we were first to claim it again.
    this.#running.get(item.id)?.controller.abort()
    this.#running.set(item.id, item)
    item.ended = this.#run(item)
      .catch((error: unknown) => {
        observe({ message: 'queue: item not settled', attrs: { id: item.id, error: reasonOf(error) } })
      })
      .finally(() => {
        if (this.#running.get(item.id) === item) this.#running.delete(item.id)
        if (this.#more) this.wake()
      })
  }

  #delayAfter(item: Item, attempt: number): number | undefined {
    const { retryDelays } = this.#options
    return typeof retryDelays === 'function' ? retryDelays(item, attempt) : retryDelays[attempt - 1]
  }

  async #attempt(item: Item, signal: AbortSignal): Promise<{ statement?: Sql; error?: Error }> {
    // Each run took its process with it: the item is never run again.
    if (item.attempt > 1 && this.#delayAfter(item, item.attempt - 1) === undefined) {
      return { error: new GiveUp('the process died in every attempt') }
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
    const hold: ItemClaim = { id, worker: workerId, attempt }
    const { error, statement } = await this.#attempt(item, controller.signal)
    running.release()
    if (this.#more) this.wake()
    if (error === undefined) {
      return statement ? this.#settle(running, [statement, this.rows.done([hold])]) : this.#settleDone(running, hold)
    }
    // Interrupted by a stop or lost to another process: not a failure of the item.
    if (controller.signal.aborted) return
    const planned = this.#delayAfter(item, attempt)
    const delay = error instanceof RetryIn ? error.seconds : planned
    const attrs = { kind: this.kind, id, attempt, error: reasonOf(error) }
    const kept = reasonOf(error).replaceAll('\0', '').slice(0, KEPT_ERROR_CHARACTERS)
    if (planned !== undefined && delay !== undefined && !(error instanceof GiveUp)) {
      observe({ message: 'queue: item failed, will retry', attrs })
      return this.#settle(running, [this.rows.retry(hold, delay, kept)])
    }
    observe({ message: 'queue: item is dead', attrs })
    try {
      await this.#options.onDead?.(item, error)
    } catch (thrown) {
      observe({ message: 'queue: onDead failed', attrs: { ...attrs, error: reasonOf(thrown) } })
    }
    return this.#settle(running, [this.rows.bury(hold, kept)])
  }

  /** Items that end while others are being written share the next commit. */
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

  /** Keeps trying through an outage: work that was done must not be done again if that can be helped. */
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
