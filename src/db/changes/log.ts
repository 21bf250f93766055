import { randomUUID } from 'node:crypto'
import { reasonOf } from '../../core/errors.ts'
import { getOrCreate } from '../../core/get-or-create.ts'
import { type Identity, SYSTEM } from '../../core/identity.ts'
import type { WordsBetween } from '../../core/observations.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db, Notifications, Relayed } from '../db.ts'
import { clamp, Loop, type LoopOptions } from '../loop.ts'
import type { Sql } from '../sql.ts'
import { Appender } from './append.ts'
import { HoldUp } from './hold-up.ts'
import { type LogMoment, Moments } from './moments.ts'
import { OtherReaders } from './other-readers.ts'
import { isBefore, type Position, pointOf, positionOf } from './position.ts'
import { Settled } from './settled.ts'
import {
  adoptChanges,
  CHANNEL,
  type ChangedTable,
  type ChangeRow,
  changesAfter,
  crowdedOut,
  durableStep,
  forgetImages,
  headOfLog,
  imagesBetween,
  isKnownPoint,
  type LoggedAction,
  type LogPoint,
  lagOfReaders,
  notifyReaders,
  type PageSize,
  registerReader,
  trimSlice,
} from './sql.ts'

export type Change = {
  readonly position: Position
  /** Milliseconds since 1970. */
  readonly at: number
  readonly action: LoggedAction
  /** The oid of the table, which a rename does not change. */
  readonly oid: number
  /** Of svc.change_shapes: which columns the table had. */
  readonly shape: string
  readonly schema: string
  readonly name: string
  /** JSON texts as PostgreSQL wrote them. */
  readonly pk: string
  /** The key as text, by which the log is searched; null where it is not known. */
  readonly key?: string | null
  readonly record: Relayed | null
}

export type Follower = {
  stop(): Promise<void>
}

export type Follow = {
  from: Position
  /** Awaited before the next batch is read; other followers are not held up by it. */
  onBatch(changes: readonly Change[]): Promise<void> | void
  /** The log no longer knows the position (restore, failover, trimmed): reading goes on from `position`. */
  onLost(position: Position): void
  /** The least time between two reads: what a batch costs its consumer decides how small batches may be. */
  gapMs?: () => number
}

export type DurableReader = {
  /** A boolean expression: while false, changes are skipped. */
  wanted: Sql
  /** A data-modifying statement over the table `batch`, whose columns are those of svc.changes. */
  effect: Sql
  /** After a batch was committed. */
  onBatch(count: number): void
}

/** One row may hold a megabyte, and a page is held as text, as rows and as frames. */
const PAGE: PageSize = { changes: 500, bytes: 2 * 1024 * 1024 }
const POLL_MS = 1_000
const TRIM_EVERY_MS = 3_600_000
const FIRST_TRIM_MS = 60_000
const LAG_EVERY_MS = 5_000
const TRIM_SLICE = 5_000
/** Polls and notifications take at most a tenth of the time: the gap after each is this many times its duration. */
const GAP_FACTOR = 9
const SETTLE_GAP_MS = 2
const MAX_SETTLE_GAP_MS = 15
const NOTIFY_GAP_MS = 10
const MAX_NOTIFY_GAP_MS = 50
/** Polls before `head()` gives up. Most open transactions end within one. */
const HEAD_LOOKS = 10
/** A durable step takes a row lock and writes; a realtime read does not. */
const READ_GAP_MS = 3
/** Reading takes at most a third of the time, which matters for large pages and on a busy machine. */
const READ_GAP_FACTOR = 2
const MAX_READ_GAP_MS = 100
const DURABLE_GAP_MS = 20
/** Planning a durable step takes PostgreSQL 10 ms, which a start does not wait for. A change wakes the reader sooner. */
const FIRST_DURABLE_STEP_MS = 250

/** The id of the change in svc.changes. */
export const idOf = ({ position }: Change): string => position.slice(position.indexOf('-') + 1)

type Part = WordsBetween<'change log: ', ' failed'>

export type ChangeLogDeps = {
  db: Db & Notifications
  observe: Observe
  /** For streams and webhooks. */
  retentionSeconds: number
  /** For history: seconds, and bytes at most. */
  history?: { retention: number; size: number }
  /** The content of svc.log_key. */
  key: string
}

/**
 * The durable record of every change. One loop per process determines up to where the log is settled; followers read up
 * to there, each at its own pace.
 */
export class ChangeLog {
  readonly #db: Db & Notifications
  readonly #observe: Observe
  readonly #retentionSeconds: number
  readonly #history: { retention: number; size: number }
  readonly #key: string
  readonly #me = randomUUID()
  readonly #settled: Settled
  readonly #holdUp: HoldUp
  readonly #moments: Moments
  readonly #others: OtherReaders
  readonly #loops = new Set<Loop>()
  /** Loops that are poked when more of the log is settled, and the least time between two of their reads. */
  readonly #readers = new Map<Loop, () => number>()
  readonly #followers = new Set<{ position(): Position; doubt(): void }>()
  readonly #timers = new Set<NodeJS.Timeout>()
  #settling: Loop | undefined
  #telling: Loop | undefined
  #stopped = false
  #unlisten: (() => Promise<void>) | undefined
  #lag = 0

  constructor({ db, observe, retentionSeconds, history = { retention: 0, size: 0 }, key }: ChangeLogDeps) {
    this.#db = db
    this.#observe = observe
    this.#retentionSeconds = retentionSeconds
    this.#history = history
    this.#key = key
    this.#settled = new Settled(db)
    this.#holdUp = new HoldUp(db, observe)
    this.#moments = new Moments(db)
    this.#others = new OtherReaders({
      db,
      id: this.#me,
      isReading: () => this.#readers.size > 0,
      onFailure: (error) => this.#troubled('notify', error),
    })
  }

  async start(): Promise<void> {
    if ((await this.#db.fly(SYSTEM, adoptChanges)) === 'true') {
      this.#observe({ message: 'change log: adopted the changes of a restored database' })
    }
    this.#settling = this.#loop('settling', {
      step: () => this.#settle(),
      everyMs: POLL_MS,
      gapMs: (tookMs) => this.#settleGapMs(tookMs),
    })
    this.#telling = this.#loop('notify', {
      // Best effort: a process that misses it polls.
      step: () => this.#db.fly(SYSTEM, notifyReaders(this.#me)).then(() => undefined),
      everyMs: Number.POSITIVE_INFINITY,
      firstMs: Number.POSITIVE_INFINITY,
      gapMs: (tookMs) => clamp(NOTIFY_GAP_MS, tookMs * GAP_FACTOR, MAX_NOTIFY_GAP_MS),
    })
    this.#unlisten = await this.#db.listen(
      CHANNEL,
      (sender) => sender !== this.#me && this.#changed(),
      () => this.#doubt(),
    )
    await this.#others.start()
    const trim = (): void => void this.trim().catch((error: unknown) => this.#troubled('trim', error))
    this.#timers.add(setTimeout(trim, FIRST_TRIM_MS * (1 + Math.random())).unref())
    this.#timers.add(setInterval(trim, TRIM_EVERY_MS).unref())
    this.#timers.add(setInterval(() => void this.lagSeconds().catch(() => undefined), LAG_EVERY_MS).unref())
  }

  /** The changes of a table as rows of SQL, for a flight that is not the server's own. */
  imagesBetween(first: string, last: string, table: { oid: number }): Sql {
    return imagesBetween(this.#key, first, last, table)
  }

  appender(who: Identity, requestId: string): Appender {
    return Appender.of(this.#key, who, requestId)
  }

  /** Call after a commit that appended. */
  wake(): void {
    if (this.#stopped) return
    this.#changed()
    if (this.#others.areThere) this.#telling?.poke()
  }

  /**
   * The last change that is there, as soon as it is settled. While a transaction goes on for long, the last one before
   * it; while nothing is known to be settled, the last one that a reader passed.
   */
  async head(): Promise<Position> {
    await this.#settling?.next()
    const { seen } = this.#settled
    for (let looks = 1; looks < HEAD_LOOKS && !this.#settled.hasReached(seen); looks++) await this.#settling?.next()
    const [point] = await this.#db.rows<LogPoint>(SYSTEM, headOfLog(this.#settled.upTo))
    return point ? positionOf(point) : '0-0'
  }

  /** Whether no other process reads the log. */
  get isAlone(): boolean {
    return !this.#others.areThere
  }

  /** What is committed now. */
  moment(): Promise<LogMoment> {
    return this.#moments.now()
  }

  async isKnown(position: Position, who: Identity = SYSTEM): Promise<boolean> {
    const point = pointOf(position)
    return point !== undefined && (await this.#db.fly(who, isKnownPoint(point))) === 'true'
  }

  /** The next page of what is settled. */
  async read(from: Position, who: Identity = SYSTEM): Promise<Change[]> {
    const point = pointOf(from)
    if (!point) throw new TypeError(`not a position: ${from}`)
    const rows = await this.#db.rows<ChangeRow>(who, changesAfter(point, this.#settled.upTo, PAGE), { as: 'bytes' })
    const tables = new Map<string, ChangedTable>()
    return rows.map(({ position, at, action, about, pk, key, record }) => {
      const { oid, shape, schema, name } = getOrCreate(tables, about, () => JSON.parse(about) as ChangedTable)
      return { position, at, action, oid, shape, schema, name, pk, key, record }
    })
  }

  follow({ from, onBatch, onLost, gapMs = () => READ_GAP_MS }: Follow): Follower {
    let position = from
    let inDoubt = false
    let readMs = 0
    const self = {
      position: () => position,
      doubt: () => {
        inDoubt = true
      },
    }
    this.#followers.add(self)
    const step = async (): Promise<number | undefined> => {
      try {
        if (inDoubt && !(await this.isKnown(position))) {
          position = await this.head()
          onLost(position)
        }
        inDoubt = false
        const beganAt = performance.now()
        const changes = await this.read(position)
        readMs = performance.now() - beganAt
        const last = changes.at(-1)
        if (!last) return undefined
        await onBatch(changes)
        position = last.position
        return 0
      } catch (error) {
        inDoubt = true // the next connection may be to another database
        throw error
      }
    }
    const loop = this.#loop('read', {
      step,
      everyMs: POLL_MS,
      gapMs: () => clamp(gapMs(), readMs * READ_GAP_FACTOR, MAX_READ_GAP_MS),
    })
    this.#wakes(loop, gapMs)
    return {
      stop: () => {
        this.#followers.delete(self)
        this.#wakes(loop, undefined)
        this.#loops.delete(loop)
        return loop.stop()
      },
    }
  }

  /** Runs once over all processes, at least once per change, its position kept in the database. */
  followDurably(name: string, { wanted, effect, onBatch }: DurableReader): { wake(): void } {
    let registered = false
    const step = async (): Promise<number | undefined> => {
      const { upTo } = this.#settled
      if (!registered) {
        await this.#db.run(SYSTEM, registerReader(name, upTo))
        registered = true
        return FIRST_DURABLE_STEP_MS
      }
      const statement = durableStep(name, { wanted, effect }, upTo, PAGE)
      const [taken] = await this.#db.rows<{ wanted: boolean; count: number }>(SYSTEM, statement)
      if (!taken) return undefined
      // While changes are skipped, writes of this process need not wake this reader; the poll is enough.
      this.#wakes(loop, taken.wanted ? gapMs : undefined)
      if (taken.count > 0) onBatch(taken.count)
      return taken.count > 0 ? 0 : undefined
    }
    const gapMs = (): number => DURABLE_GAP_MS
    const loop = this.#loop('reader', { step, everyMs: POLL_MS, gapMs }, name)
    this.#wakes(loop, gapMs)
    return { wake: () => loop.poke() }
  }

  /** Age of the oldest change that a reader has not read. */
  async lagSeconds(): Promise<number> {
    const [live] = [...this.#followers].map((one) => one.position()).sort((a, b) => (isBefore(a, b) ? -1 : 1))
    this.#lag = Number(await this.#db.fly(SYSTEM, lagOfReaders(live === undefined ? undefined : pointOf(live))))
    return this.#lag
  }

  /** What keeps the log unsettled, if something has for seconds. */
  warnings(): string[] {
    return this.#holdUp.warnings
  }

  /** How long the log has not been settled. */
  unsettledSeconds(): number {
    return this.#holdUp.seconds
  }

  /** The last result of `lagSeconds`, for gauges. */
  lastLag(): number {
    return this.#lag
  }

  async trim(): Promise<number> {
    let total = 0
    const crowded = (await this.#db.fly(SYSTEM, crowdedOut(this.#history.size), { kind: 'slow' })) ?? '0'
    const kept = {
      streamsSeconds: this.#retentionSeconds,
      historySeconds: this.#history.retention,
      crowdedOut: crowded,
    }
    for (let slice = TRIM_SLICE; slice === TRIM_SLICE && !this.#stopped; total += slice) {
      // Without `start` there is no loop to wait for.
      await (this.#settling?.next() ?? this.#settled.look())
      const statement = trimSlice(kept, this.#settled.upTo, TRIM_SLICE)
      slice = Number(await this.#db.fly(SYSTEM, statement, { kind: 'slow' }))
    }
    await this.#db.fly(SYSTEM, forgetImages(this.#settled.upTo), { kind: 'slow' })
    return total
  }

  async stop(): Promise<void> {
    this.#stopped = true
    for (const timer of this.#timers) clearTimeout(timer)
    await this.#unlisten?.().catch(() => undefined)
    await this.#others.stop()
    await Promise.all([...this.#loops].map((loop) => loop.stop()))
  }

  /** The log is settled at most twice as often as it is read. */
  #settleGapMs(tookMs: number): number {
    if (this.#readers.size === 0) return MAX_SETTLE_GAP_MS
    const readEveryMs = Math.min(...Array.from(this.#readers.values(), (gapMs) => gapMs()))
    const least = Math.max(SETTLE_GAP_MS, readEveryMs / 2)
    return clamp(least, tookMs * GAP_FACTOR, Math.max(least, MAX_SETTLE_GAP_MS))
  }

  /** Whether changes wake this reader, those of other processes too. */
  #wakes(reader: Loop, gapMs: (() => number) | undefined): void {
    if (gapMs) this.#readers.set(reader, gapMs)
    else this.#readers.delete(reader)
    this.#others.changed()
  }

  /** Without readers the poll is enough. */
  #changed(): void {
    if (this.#readers.size > 0) this.#settling?.poke()
  }

  async #settle(): Promise<number | undefined> {
    const before = this.#settled.upTo
    let wait: number | undefined
    try {
      wait = await this.#settled.look()
    } catch (error) {
      this.#settled.forget()
      throw error
    } finally {
      if (this.#settled.upTo !== before) for (const reader of this.#readers.keys()) reader.poke()
    }
    await this.#holdUp.follow(wait === undefined).catch((error: unknown) => this.#troubled('settling', error))
    return wait
  }

  /** After a reconnect notifications may be lost, and the database may be a restored one or another replica. */
  #doubt(): void {
    this.#settled.forget()
    for (const follower of this.#followers) follower.doubt()
    for (const reader of this.#readers.keys()) reader.poke()
    this.#settling?.poke()
  }

  #loop(what: Part, options: Omit<LoopOptions, 'onFailure'>, reader?: string): Loop {
    const loop = new Loop({ ...options, onFailure: (error) => this.#troubled(what, error, reader) })
    this.#loops.add(loop)
    return loop
  }

  #troubled(what: Part, error: unknown, reader?: string): void {
    this.#observe({ message: `change log: ${what} failed`, attrs: { reader, error: reasonOf(error) } })
  }
}
