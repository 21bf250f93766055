import { randomUUID } from 'node:crypto'
import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { WordsBetween } from '../../core/observations.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db, Notifications } from '../db.ts'
import { Loop } from '../loop.ts'
import type { Sql } from '../sql.ts'
import { groupSizes, notifyWorkers, type PushOptions, pushEach, pushItem, type QueueRows, removeGroup } from './rows.ts'
import { type Handler, type Item, Worker, type WorkOptions } from './worker.ts'

export { GiveUp, RetryIn } from './failure.ts'
export type { Item }

const POLL_MS = 1000
const NOTIFY_EVERY_MS = 10
/** How long a stop waits for interrupted handlers to end before it returns their items. */
const INTERRUPT_GRACE_MS = 500
/** How long a stop waits for handlers with `finishes`. */
const FINISH_MS = 10_000

/**
 * Durable background work: rows of svc.queue (or of a table like it), claimed by any process, at least once each.
 * The database's clock decides what is due; timers here only decide when to poll.
 */
export class Queue {
  readonly #db: Db & Notifications
  readonly #observe: Observe
  readonly #pollMs: number
  readonly #finishMs: number
  readonly #isIdle: boolean
  readonly #workerId = randomUUID()
  readonly #workers = new Map<string, Worker>()
  readonly #kindsToNotify = new Set<string>()
  #notifyTimer: NodeJS.Timeout | undefined
  #polls: Loop | undefined
  #unlisten: (() => Promise<void>) | undefined
  #isFailing = false
  #stopped: Promise<void> | undefined

  /** `isIdle`: what is queued stays queued. */
  constructor(deps: {
    db: Db & Notifications
    observe: Observe
    pollMs?: number
    finishMs?: number
    isIdle?: boolean
  }) {
    this.#db = deps.db
    this.#observe = deps.observe
    this.#pollMs = deps.pollMs ?? POLL_MS
    this.#finishMs = deps.finishMs ?? FINISH_MS
    this.#isIdle = deps.isIdle ?? false
  }

  /** A statement for the caller's flight: the item exists if and only if the flight commits. */
  push(kind: string, payload: object, options: PushOptions = {}): Sql {
    return pushItem(kind, payload, options)
  }

  /** As `push`, one item for each row of a query with the columns group_key and payload. */
  pushEach(kind: string, rows: Sql): Sql {
    return pushEach(kind, rows)
  }

  /** A statement that removes the items of a group. */
  clear(kind: string, group: string): Sql {
    return removeGroup(kind, group)
  }

  /** The number of items that wait or run, by group. */
  async sizes(kind: string): Promise<Map<string, number>> {
    const rows = await this.#db.rows<{ group: string; size: number }>(SYSTEM, groupSizes(kind))
    return new Map(rows.map(({ group, size }) => [group, size]))
  }

  work(kind: string, options: WorkOptions, handler: Handler): void {
    if (this.#workers.has(kind)) throw new Error(`queue kind ${kind} has two workers`)
    const worker = new Worker(kind, options, handler, {
      db: this.#db,
      observe: this.#observe,
      workerId: this.#workerId,
      isStopping: () => this.#stopped !== undefined,
      onFailure: (what, error) => this.#onFailure(what, error),
      onSuccess: () => {
        this.#isFailing = false
      },
    })
    this.#workers.set(kind, worker)
    if (!this.#polls) return
    worker.start()
    this.#polls.poke()
  }

  /** Starts all workers, also those that `work` adds later. Listens for other processes, and polls in case that fails. */
  start(): void {
    if (this.#isIdle) return
    for (const worker of this.#workers.values()) worker.start()
    // One statement finds which kinds have items; a claim takes PostgreSQL 6 ms for each kind, also for an empty one.
    this.#polls = new Loop({
      step: () => this.#poll(),
      everyMs: this.#pollMs,
      onFailure: (error) => this.#onFailure('poll', error),
    })
    const onNotify = (payload: string): void => {
      const [from, ...kinds] = payload.split(' ')
      if (from !== this.#workerId) for (const kind of kinds) this.#workers.get(kind)?.wake()
    }
    this.#db.listen('svc_queue', onNotify).then(
      (stopListening) => {
        this.#unlisten = stopListening
        if (this.#stopped) void stopListening().catch(() => undefined)
      },
      (error: unknown) => this.#onFailure('listen', error),
    )
  }

  /** Call after the flight with `push` committed; otherwise the item waits for the next poll. */
  wake(kind: string): void {
    this.#workers.get(kind)?.wake()
    this.#notifySoon(kind)
  }

  /** Claims nothing more, and returns interruptible items to other processes at once. */
  drain(): void {
    this.#stopped ??= this.#stop()
  }

  /** Resolves when every item is finished or given back. */
  async stop(): Promise<void> {
    this.drain()
    await this.#stopped
  }

  /** Logs once per outage. */
  #onFailure(what: WordsBetween<'queue: ', ' failed'>, error: unknown): void {
    if (this.#isFailing) return
    this.#isFailing = true
    this.#observe({ message: `queue: ${what} failed`, attrs: { error: reasonOf(error) } })
  }

  async #poll(): Promise<undefined> {
    for (const [rows, kinds] of this.#kindsByRows()) {
      const due = await this.#db.rows<{ kind: string }>(SYSTEM, [rows.returnExpired(), rows.due(kinds)])
      for (const { kind } of due) this.#workers.get(kind)?.wake()
    }
    if (this.#isFailing) this.#observe({ message: 'queue: database is back' })
    this.#isFailing = false
  }

  #kindsByRows(): Map<QueueRows, string[]> {
    const kinds = new Map<QueueRows, string[]>()
    for (const { rows, kind } of this.#workers.values()) kinds.set(rows, [...(kinds.get(rows) ?? []), kind])
    return kinds
  }

  #notifySoon(kind: string): void {
    this.#kindsToNotify.add(kind)
    this.#notifyTimer ??= setTimeout(() => {
      this.#notifyTimer = undefined
      this.#notify([...this.#kindsToNotify])
      this.#kindsToNotify.clear()
    }, NOTIFY_EVERY_MS).unref()
  }

  /** Best effort: a process that misses it polls. */
  #notify(kinds: readonly string[]): void {
    this.#db.fly(SYSTEM, notifyWorkers([this.#workerId, ...kinds].join(' '))).catch(() => undefined)
  }

  async #stop(): Promise<void> {
    const workers = [...this.#workers.values()]
    const startedAt = performance.now()
    void this.#polls?.stop()
    await this.#unlisten?.().catch(() => undefined)
    const leftMs = (): number => this.#finishMs - (performance.now() - startedAt)
    await waitAtMost(INTERRUPT_GRACE_MS, Promise.all(workers.map((worker) => worker.interrupt())))
    await this.#giveBack(workers)
    const finishing = workers.filter(({ finishingIds }) => finishingIds.length > 0)
    await waitAtMost(leftMs(), Promise.all(finishing.map((worker) => worker.finished())))
    if (finishing.some(({ finishingIds }) => finishingIds.length > 0)) await this.#giveBack([])
    for (const worker of workers) worker.stop()
  }

  /** Returns all items of this process except those that `keepers` let finish. */
  async #giveBack(keepers: readonly Worker[]): Promise<void> {
    if (this.#workers.size === 0) return
    try {
      let count = 0
      for (const rows of this.#kindsByRows().keys()) {
        const kept = keepers.filter((worker) => worker.rows === rows).flatMap(({ finishingIds }) => finishingIds)
        count += await this.#db.run(SYSTEM, rows.giveBack(this.#workerId, kept))
      }
      if (count > 0) this.#notify([...this.#workers.keys()])
    } catch (error) {
      this.#observe({ message: 'queue: leases run out instead', attrs: { error: reasonOf(error) } })
    }
  }
}

/** Waits for `work`, at most `ms`. */
async function waitAtMost(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, late])
  clearTimeout(timer)
}
