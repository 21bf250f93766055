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
/** How long a stop lets interrupted handlers end by themselves before their items go back. */
const INTERRUPT_GRACE_MS = 500
/** How long a stop waits for handlers that may finish. */
const FINISH_MS = 10_000

/**
 * Durable background work: rows of svc.queue (or of a table like it), claimed by any process, at least once each.
 * The database's clock decides what is due; timers here only decide when to ask.
 */
export class Queue {
  readonly #db: Db & Notifications
  readonly #observe: Observe
  readonly #pollMs: number
  readonly #finishMs: number
  readonly #me = randomUUID()
  readonly #workers = new Map<string, Worker>()
  readonly #kindsToNotify = new Set<string>()
  #notifyTimer: NodeJS.Timeout | undefined
  #polls: Loop | undefined
  #unlisten: (() => Promise<void>) | undefined
  #isTroubled = false
  #stopped: Promise<void> | undefined

  constructor(deps: { db: Db & Notifications; observe: Observe; pollMs?: number; finishMs?: number }) {
    this.#db = deps.db
    this.#observe = deps.observe
    this.#pollMs = deps.pollMs ?? POLL_MS
    this.#finishMs = deps.finishMs ?? FINISH_MS
  }

  /** A statement for the caller's own flight: the item exists if and only if the flight commits. */
  push(kind: string, payload: object, options: PushOptions = {}): Sql {
    return pushItem(kind, payload, options)
  }

  /** As `push`, one item for each row of a query with the columns group_key and payload. */
  pushEach(kind: string, rows: Sql): Sql {
    return pushEach(kind, rows)
  }

  /** A statement that takes back what waits in a group. */
  clear(kind: string, group: string): Sql {
    return removeGroup(kind, group)
  }

  /** How much waits or runs, by group. */
  async sizes(kind: string): Promise<Map<string, number>> {
    const rows = await this.#db.rows<{ group: string; size: number }>(SYSTEM, groupSizes(kind))
    return new Map(rows.map(({ group, size }) => [group, size]))
  }

  work(kind: string, options: WorkOptions, handler: Handler): void {
    if (this.#workers.has(kind)) throw new Error(`queue kind ${kind} has two workers`)
    const worker = new Worker(kind, options, handler, {
      db: this.#db,
      observe: this.#observe,
      workerId: this.#me,
      isStopping: () => this.#stopped !== undefined,
      onFailure: (what, error) => this.#troubled(what, error),
      onSuccess: () => {
        this.#isTroubled = false
      },
    })
    this.#workers.set(kind, worker)
    if (this.#polls) worker.start()
  }

  /** What `work` named begins, and what it names from now on at once. Hears other processes, and polls in case it does not. */
  start(): void {
    this.#polls = new Loop({
      step: () => this.#poll(),
      everyMs: this.#pollMs,
      onFailure: (error) => this.#troubled('poll', error),
    })
    const heard = (payload: string): void => {
      const [from, ...kinds] = payload.split(' ')
      if (from !== this.#me) for (const kind of kinds) this.#workers.get(kind)?.wake()
    }
    this.#db.listen('svc_queue', heard).then(
      (stopListening) => {
        this.#unlisten = stopListening
        if (this.#stopped) void stopListening().catch(() => undefined)
      },
      (error: unknown) => this.#troubled('listen', error),
    )
    for (const worker of this.#workers.values()) worker.start()
  }

  /** Call after the flight with `push` committed; without it the item waits for the next poll. */
  wake(kind: string): void {
    this.#workers.get(kind)?.wake()
    this.#notifySoon(kind)
  }

  /** The server begins to stop: nothing new is begun, and what can be interrupted goes back to the others at once. */
  drain(): void {
    this.#stopped ??= this.#stop()
  }

  /** Resolves when everything is settled or given back. */
  async stop(): Promise<void> {
    this.drain()
    await this.#stopped
  }

  /** One line per outage, not one per second. */
  #troubled(what: WordsBetween<'queue: ', ' failed'>, error: unknown): void {
    if (this.#isTroubled) return
    this.#isTroubled = true
    this.#observe({ message: `queue: ${what} failed`, attrs: { error: reasonOf(error) } })
  }

  async #poll(): Promise<undefined> {
    for (const [rows, kinds] of this.#kindsByRows()) {
      const due = await this.#db.rows<{ kind: string }>(SYSTEM, [rows.returnExpired(), rows.due(kinds)])
      for (const { kind } of due) this.#workers.get(kind)?.wake()
    }
    if (this.#isTroubled) this.#observe({ message: 'queue: database is back' })
    this.#isTroubled = false
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

  /** Only a wake-up: whoever misses it polls. */
  #notify(kinds: readonly string[]): void {
    this.#db.fly(SYSTEM, notifyWorkers([this.#me, ...kinds].join(' '))).catch(() => undefined)
  }

  async #stop(): Promise<void> {
    const workers = [...this.#workers.values()]
    const startedAt = performance.now()
    void this.#polls?.stop()
    await this.#unlisten?.().catch(() => undefined)
    const leftMs = (): number => this.#finishMs - (performance.now() - startedAt)
    await within(INTERRUPT_GRACE_MS, Promise.all(workers.map((worker) => worker.interrupt())))
    await this.#giveBack(workers)
    const finishing = workers.filter(({ finishingIds }) => finishingIds.length > 0)
    await within(leftMs(), Promise.all(finishing.map((worker) => worker.finished())))
    if (finishing.some(({ finishingIds }) => finishingIds.length > 0)) await this.#giveBack([])
    for (const worker of workers) worker.stop()
  }

  /** Everything this process holds but what these workers let finish. */
  async #giveBack(keepers: readonly Worker[]): Promise<void> {
    if (this.#workers.size === 0) return
    try {
      let count = 0
      for (const rows of this.#kindsByRows().keys()) {
        const kept = keepers.filter((worker) => worker.rows === rows).flatMap(({ finishingIds }) => finishingIds)
        count += await this.#db.run(SYSTEM, rows.giveBack(this.#me, kept))
      }
      if (count > 0) this.#notify([...this.#workers.keys()])
    } catch (error) {
      this.#observe({ message: 'queue: leases run out instead', attrs: { error: reasonOf(error) } })
    }
  }
}

/** Waits for `work`, but no longer than this. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, late])
  clearTimeout(timer)
}
