import { randomUUID } from 'node:crypto'
import { sleep } from '../../core/clock.ts'
import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../db.ts'
import type { Sql } from '../sql.ts'
import {
  type Claimed,
  claimItems,
  dueKinds,
  giveBack,
  groupSizes,
  type Hold,
  notifyOthers,
  type Push,
  pushEach,
  pushItem,
  removeGroup,
  removeItem,
  renewLeases,
  retryItem,
} from './sql.ts'

const POLL_MS = 1000
const LONGEST_BACK_OFF_MS = 5000
const NOTIFY_EVERY_MS = 10
/** How long stop() lets handlers end by themselves before their items go back. */
const STOP_GRACE_MS = 500

type Item = { id: string; payload: unknown /** 1 for the first run. */; attempt: number }
/** A statement that it resolves to is run together with the removal of the item: both happen or neither. */
type Handler = (item: Item, signal: AbortSignal) => Promise<Sql | undefined> | Promise<void>

type WorkOptions = {
  /** Items of this kind at a time in this process. */
  concurrency: number
  /** A process that dies keeps its items this long; renewed every third of it. */
  leaseSeconds: number
  /** Seconds to wait after each failed run; after the last one the item is dead. */
  retryDelays: readonly number[]
  /** Items of one group at a time in this process; the others keep their share. */
  perGroup?: number
  /** Told about an item that failed for good, just before its row is deleted. */
  onDead?: (item: Item, error: unknown) => Promise<void> | void
}

/** A handler throws this to choose the wait itself, e.g. for a Retry-After header. */
export class RetryIn extends Error {
  readonly seconds: number
  constructor(seconds: number, message: string) {
    super(message)
    this.seconds = seconds
  }
}

/** A handler throws this when trying again cannot help: the item is dead at once. */
export class GiveUp extends Error {}

export type Queue = {
  /** A statement for the caller's own flight: the item exists if and only if the flight commits. */
  push(kind: string, payload: object, options?: Push): Sql
  /** As `push`, one item for each row of a query with the columns group_key and payload. */
  pushEach(kind: string, rows: Sql): Sql
  /** A statement that takes back what waits in a group. */
  clear(kind: string, group: string): Sql
  /** How much waits or runs, by group. */
  sizes(kind: string): Promise<Map<string, number>>
  work(kind: string, options: WorkOptions, handler: Handler): void
  /** Call after the flight with `push` committed; without it the item waits for the next poll. */
  wake(kind: string): void
  stop(): Promise<void>
}

type Running = Claimed & { controller: AbortController }
type Worker = {
  kind: string
  options: WorkOptions
  handler: Handler
  running: Map<string, Running>
  claiming: boolean
  /** Somebody asked for a claim while one was under way. */
  again: boolean
  /** The last claim left work behind: its slots, or the slots of a group, were used up. */
  more: boolean
}

/**
 * Durable background work: rows of svc.queue, claimed by any process, at least once each.
 * The database's clock decides what is due; timers here only decide when to ask.
 */
export function createQueue({ db, observe }: { db: Db; observe: Observe }): Queue {
  const me = randomUUID()
  const workers = new Map<string, Worker>()
  const beats = new Set<NodeJS.Timeout>()
  const underWay = new Set<Promise<void>>()
  const kindsToNotify = new Set<string>()
  let notifyTimer: NodeJS.Timeout | undefined
  let pollTimer: NodeJS.Timeout | undefined
  let unlisten: (() => Promise<void>) | undefined
  let failures = 0
  let stopping = false

  /** One line per outage, not one per second. */
  const troubled = (what: string, error: unknown): void => {
    failures++
    if (failures === 1) observe({ level: 'warn', message: `queue: ${what} failed`, attrs: { error: reasonOf(error) } })
  }

  async function claim(worker: Worker): Promise<void> {
    if (worker.claiming) {
      worker.again = true
      return
    }
    worker.claiming = true
    try {
      do {
        worker.again = false
        await claimOnce(worker)
      } while (worker.again && !stopping)
    } catch (error) {
      worker.more = true
      troubled('claim', error)
    } finally {
      worker.claiming = false
    }
  }

  async function claimOnce(worker: Worker): Promise<void> {
    const { concurrency, leaseSeconds, perGroup = concurrency } = worker.options
    const free = concurrency - worker.running.size
    worker.more = true
    if (stopping || free <= 0) return
    const running = perGroups(worker.running.values())
    const items = await db.rows<Claimed>(
      SYSTEM,
      claimItems({ kind: worker.kind, worker: me, free, perGroup, leaseSeconds, running }),
    )
    failures = 0
    if (stopping) return // stop() gives them back
    for (const item of items) start(worker, item)
    const fullGroup = [...perGroups(worker.running.values()).values()].some((count) => count >= perGroup)
    worker.more = worker.running.size > 0 && (items.length >= free || fullGroup)
  }

  function start(worker: Worker, claimed: Claimed): void {
    const item: Running = { ...claimed, controller: new AbortController() }
    // Our own lease ran out in an outage and we were first to claim it again.
    worker.running.get(item.id)?.controller.abort()
    worker.running.set(item.id, item)
    const done: Promise<void> = run(worker, item)
      .catch((error: unknown) => {
        observe({ level: 'error', message: 'queue: item not settled', attrs: { id: item.id, error: reasonOf(error) } })
      })
      .finally(() => {
        if (worker.running.get(item.id) === item) worker.running.delete(item.id)
        underWay.delete(done)
        if (worker.more) wakeHere(worker.kind)
      })
    underWay.add(done)
  }

  async function attempt(worker: Worker, item: Running): Promise<{ statement?: Sql; error?: Error }> {
    // Each run took its process with it: the item is never run again.
    if (item.attempt > worker.options.retryDelays.length + 1) {
      return { error: new GiveUp('the process died in every attempt') }
    }
    try {
      const statement = await worker.handler(item, item.controller.signal)
      return statement ? { statement } : {}
    } catch (error) {
      return { error: error instanceof Error ? error : new Error(String(error)) }
    }
  }

  async function run(worker: Worker, item: Running): Promise<void> {
    const { retryDelays } = worker.options
    const hold: Hold = { id: item.id, worker: me, attempt: item.attempt }
    const { error, statement } = await attempt(worker, item)
    if (error === undefined) return settle(item, statement ? [statement, removeItem(hold)] : [removeItem(hold)])
    // Interrupted by stop() or lost to another process: not a failure of the item.
    if (item.controller.signal.aborted) return
    const delay = error instanceof RetryIn ? error.seconds : retryDelays[item.attempt - 1]
    const attrs = { kind: worker.kind, id: item.id, attempt: item.attempt, error: reasonOf(error) }
    if (item.attempt <= retryDelays.length && delay !== undefined && !(error instanceof GiveUp)) {
      observe({ level: 'warn', message: 'queue: item failed, will retry', attrs })
      return settle(item, [retryItem(hold, delay, reasonOf(error).slice(0, 1000))])
    }
    observe({ level: 'error', message: 'queue: item is dead', attrs })
    try {
      await worker.options.onDead?.(item, error)
    } catch (thrown) {
      observe({ level: 'error', message: 'queue: onDead failed', attrs: { ...attrs, error: reasonOf(thrown) } })
    }
    return settle(item, [removeItem(hold)])
  }

  /** Keeps trying through an outage: work that was done must not be done again if that can be helped. */
  async function settle(item: Running, statements: [Sql, ...Sql[]]): Promise<void> {
    for (let wait = 100; ; wait = Math.min(wait * 2, LONGEST_BACK_OFF_MS)) {
      try {
        await db.run(SYSTEM, statements)
        return
      } catch (error) {
        troubled('write', error)
        if (stopping || item.controller.signal.aborted) return
        await sleep(wait)
      }
    }
  }

  async function heartbeat(worker: Worker): Promise<void> {
    const ids = [...worker.running.keys()]
    if (ids.length === 0) return
    const kept = await db.rows<{ id: string }>(SYSTEM, renewLeases(me, ids, worker.options.leaseSeconds))
    const still = new Set(kept.map(({ id }) => id))
    for (const id of ids) if (!still.has(id)) worker.running.get(id)?.controller.abort()
  }

  function wakeHere(kind: string): void {
    const worker = workers.get(kind)
    if (!worker || stopping) return
    const claimed: Promise<void> = claim(worker).finally(() => underWay.delete(claimed))
    underWay.add(claimed)
  }

  async function poll(): Promise<void> {
    try {
      const due = await db.rows<{ kind: string }>(SYSTEM, dueKinds([...workers.keys()]))
      if (failures > 0) observe({ level: 'info', message: 'queue: database is back' })
      failures = 0
      for (const { kind } of due) wakeHere(kind)
    } catch (error) {
      troubled('poll', error)
    }
    if (!stopping) schedulePoll()
  }

  function schedulePoll(): void {
    const wait = Math.min(POLL_MS * 2 ** Math.min(failures, 3), LONGEST_BACK_OFF_MS)
    pollTimer = setTimeout(() => void poll(), wait).unref()
  }

  /** On start of the first worker: hear other processes, and poll in case nothing is heard. */
  function begin(): void {
    if (pollTimer) return
    schedulePoll()
    const heard = (payload: string): void => {
      const [from, ...kinds] = payload.split(' ')
      if (from !== me) for (const kind of kinds) wakeHere(kind)
    }
    db.listen('svc_queue', heard).then(
      (stopListening) => {
        unlisten = stopListening
        if (stopping) void stopListening().catch(() => undefined)
      },
      (error: unknown) => troubled('listen', error),
    )
  }

  function notifySoon(kind: string): void {
    kindsToNotify.add(kind)
    notifyTimer ??= setTimeout(() => {
      notifyTimer = undefined
      const payload = [me, ...kindsToNotify].join(' ')
      kindsToNotify.clear()
      // Only a wake-up: whoever misses it polls.
      db.fly(SYSTEM, notifyOthers(payload)).catch(() => undefined)
    }, NOTIFY_EVERY_MS).unref()
  }

  return {
    push: (kind, payload, options = {}) => pushItem(kind, payload, options),
    pushEach,
    clear: removeGroup,
    async sizes(kind) {
      const rows = await db.rows<{ group: string; size: number }>(SYSTEM, groupSizes(kind))
      return new Map(rows.map(({ group, size }) => [group, size]))
    },

    work(kind, options, handler) {
      if (workers.has(kind)) throw new Error(`queue kind ${kind} has two workers`)
      const worker: Worker = { kind, options, handler, running: new Map(), claiming: false, again: false, more: false }
      workers.set(kind, worker)
      const beat = () => void heartbeat(worker).catch((error: unknown) => troubled('heartbeat', error))
      beats.add(setInterval(beat, (options.leaseSeconds * 1000) / 3).unref())
      begin()
      wakeHere(kind)
    },

    wake(kind) {
      if (stopping) return
      wakeHere(kind)
      notifySoon(kind)
    },

    async stop() {
      if (stopping) return
      stopping = true
      clearTimeout(pollTimer)
      clearTimeout(notifyTimer)
      await unlisten?.().catch(() => undefined)
      for (const worker of workers.values()) for (const item of worker.running.values()) item.controller.abort()
      await Promise.race([Promise.allSettled(underWay), sleep(STOP_GRACE_MS)])
      for (const beat of beats) clearInterval(beat)
      if (workers.size === 0) return
      try {
        await db.run(SYSTEM, giveBack(me))
        db.fly(SYSTEM, notifyOthers([me, ...workers.keys()].join(' '))).catch(() => undefined)
      } catch (error) {
        observe({ level: 'warn', message: 'queue: leases run out instead', attrs: { error: reasonOf(error) } })
      }
    },
  }
}

function perGroups(items: Iterable<{ group: string }>): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { group } of items) counts.set(group, (counts.get(group) ?? 0) + 1)
  return counts
}
