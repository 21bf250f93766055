import { randomUUID } from 'node:crypto'
import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../db.ts'
import type { Sql } from '../sql.ts'
import { createWaker, type Waker } from '../waker.ts'
import {
  adoptChanges,
  CHANNEL,
  type ChangeRow,
  changesAfter,
  durableStep,
  headOfLog,
  isKnownPlace,
  type LogPlace,
  lagOfReaders,
  notifyReaders,
  registerReader,
  type Settled,
  trimSlice,
} from './sql.ts'

/** A place in the log, opaque to clients: `<xid>-<id>`. */
export type Position = string

export type Change = {
  readonly position: Position
  /** Milliseconds since 1970. */
  readonly at: number
  readonly action: 'create' | 'update' | 'delete'
  readonly schema: string
  readonly name: string
  /** JSON texts as PostgreSQL wrote them. */
  readonly pk: string
  readonly record: string | null
  readonly oldRecord: string | null
}

export type Follower = {
  /** Where the next batch begins. */
  position(): Position
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

export interface ChangeLog {
  start(): Promise<void>
  /** Call after a commit that appended. */
  wake(): void
  head(): Promise<Position>
  read(from: Position, limit: number): Promise<Change[]>
  isKnown(position: Position): Promise<boolean>
  follow(options: Follow): Follower
  /** Runs once over all processes, at least once per change, its position kept in the database. */
  followDurably(name: string, reader: DurableReader): { wake(): void }
  /** Age of the oldest change that somebody has not read. */
  lagSeconds(): Promise<number>
  /** The same as of a few seconds ago, for gauges. */
  lastLag(): number
  trim(): Promise<number>
  stop(): Promise<void>
}

const POSITION = /^(\d{1,20})-(\d{1,19})$/
const MAX_XID = 2n ** 64n - 1n
const MAX_ID = 2n ** 63n - 1n

const BATCH_SIZE = 500
const POLL_MS = 1_000
const NOTIFY_EVERY_MS = 10
const TRIM_EVERY_MS = 3_600_000
const FIRST_TRIM_MS = 60_000
const LAG_EVERY_MS = 5_000
const TRIM_SLICE = 5_000
/** A durable step takes a row lock and writes; a realtime read does not. */
const READ_GAP_MS = 3
const DURABLE_GAP_MS = 20

function placeOf(position: Position): LogPlace | undefined {
  const [, xid, id] = POSITION.exec(position) ?? []
  if (xid === undefined || id === undefined || BigInt(xid) > MAX_XID || BigInt(id) > MAX_ID) return undefined
  return { xid, id }
}
const positionOf = ({ xid, id }: LogPlace): Position => `${xid}-${id}`

/** Is `a` behind `b` in the log? */
export function isBefore(a: Position, b: Position): boolean {
  const [x, y] = [placeOf(a), placeOf(b)]
  if (!x || !y) return false
  return x.xid === y.xid ? BigInt(x.id) < BigInt(y.id) : BigInt(x.xid) < BigInt(y.xid)
}

export function createChangeLog(deps: { db: Db; observe: Observe; retentionSeconds: number }): ChangeLog {
  const { db, observe, retentionSeconds } = deps
  const me = randomUUID()
  const wakers = new Set<Waker>()
  /** Those of `wakers` that own writes and notifications wake. */
  const wakeable = new Set<Waker>()
  const loops = new Set<Promise<void>>()
  const followers = new Set<{ position(): Position; doubt(): void }>()
  const timers = new Set<NodeJS.Timeout>()
  let stopped = false
  let unlisten: (() => Promise<void>) | undefined
  let notifyTimer: NodeJS.Timeout | undefined
  let notifiedAt = 0
  let lag = 0

  const troubled = (what: string, error: unknown): void =>
    observe({ level: 'warn', message: `change log: ${what} failed`, attrs: { error: reasonOf(error) } })

  const pokeAll = (): void => {
    for (const waker of wakeable) waker.poke()
  }

  function notifySoon(): void {
    if (notifyTimer || stopped) return
    const wait = Math.max(0, notifiedAt + NOTIFY_EVERY_MS - Date.now())
    notifyTimer = setTimeout(() => {
      notifyTimer = undefined
      notifiedAt = Date.now()
      // Only a wake-up: whoever misses it polls.
      db.fly(SYSTEM, notifyReaders(me)).catch(() => undefined)
    }, wait).unref()
  }

  async function page(
    from: Position,
    limit: number,
    settled: Settled = 'cluster',
  ): Promise<{ changes: Change[]; held: boolean }> {
    const place = placeOf(from)
    if (!place) throw new TypeError(`not a position: ${from}`)
    const rows = await db.rows<ChangeRow>(SYSTEM, changesAfter(place, limit, settled))
    return { changes: rows.flatMap(toChange), held: rows[0]?.held ?? false }
  }

  async function head(): Promise<Position> {
    const [place] = await db.rows<LogPlace>(SYSTEM, headOfLog)
    return place ? positionOf(place) : '0-0'
  }

  async function isKnown(position: Position): Promise<boolean> {
    const place = placeOf(position)
    return place !== undefined && (await db.fly(SYSTEM, isKnownPlace(place))) === 'true'
  }

  /** Runs `step` whenever woken and once a second, for as long as it lives. A step says how soon it wants to go again. */
  function run(what: string, gapMs: () => number, step: () => Promise<number>): { waker: Waker; ended: Promise<void> } {
    const waker = createWaker(gapMs)
    wakers.add(waker)
    wakeable.add(waker)
    const loop = async (): Promise<void> => {
      let failures = 0
      while (!waker.stopped) {
        const wait = await step().then(
          (ms) => {
            failures = 0
            return ms
          },
          (error: unknown) => {
            if (failures++ === 0) troubled(what, error)
            return Math.min(POLL_MS, 50 * 2 ** failures)
          },
        )
        await waker.wait(wait)
      }
    }
    const ended = loop().finally(() => {
      wakers.delete(waker)
      wakeable.delete(waker)
      loops.delete(ended)
    })
    loops.add(ended)
    return { waker, ended }
  }

  function follow({ from, onBatch, onLost, gapMs = () => READ_GAP_MS }: Follow): Follower {
    let position = from
    let inDoubt = false
    const soon = createBackOff()
    const doubt = (): void => {
      inDoubt = true
    }
    const self = { position: () => position, doubt }
    followers.add(self)
    const { waker, ended } = run('read', gapMs, async () => {
      try {
        if (inDoubt && !(await isKnown(position))) {
          position = await head()
          onLost(position)
        }
        inDoubt = false
        const { changes, held } = await page(position, BATCH_SIZE, soon.settled())
        const last = changes.at(-1)
        if (last) {
          await onBatch(changes)
          position = last.position
        }
        if (changes.length === BATCH_SIZE) return 0
        return held ? soon.next() : soon.reset(POLL_MS)
      } catch (error) {
        inDoubt = true // the database that answers next may be another one
        throw error
      }
    })
    return {
      position: () => position,
      stop() {
        followers.delete(self)
        waker.stop()
        return ended
      },
    }
  }

  async function lagSeconds(): Promise<number> {
    const live = [...followers].map((follower) => follower.position()).sort((a, b) => (isBefore(a, b) ? -1 : 1))[0]
    lag = Number(await db.fly(SYSTEM, lagOfReaders(live === undefined ? undefined : placeOf(live))))
    return lag
  }

  return {
    async start() {
      if ((await db.fly(SYSTEM, adoptChanges)) === 'true') {
        observe({ level: 'warn', message: 'change log: adopted the changes of a restored database' })
      }
      unlisten = await db.listen(
        CHANNEL,
        (sender) => sender !== me && pokeAll(),
        () => {
          for (const follower of followers) follower.doubt()
          pokeAll()
        },
      )
      const trim = (): void => void this.trim().catch((error: unknown) => troubled('trim', error))
      timers.add(setTimeout(trim, FIRST_TRIM_MS * (1 + Math.random())).unref())
      timers.add(setInterval(trim, TRIM_EVERY_MS).unref())
      timers.add(setInterval(() => void lagSeconds().catch(() => undefined), LAG_EVERY_MS).unref())
    },

    wake() {
      if (stopped) return
      pokeAll()
      notifySoon()
    },

    head,
    isKnown,
    read: async (from, limit) => (await page(from, limit)).changes,
    follow,

    followDurably(name, { wanted, effect, onBatch }) {
      let registered = false
      let isWanted = true
      const soon = createBackOff()
      const { waker } = run(
        `reader ${name}`,
        () => DURABLE_GAP_MS,
        async () => {
          if (!registered) await db.run(SYSTEM, registerReader(name))
          registered = true
          const [step] = await db.rows<{ wanted: boolean; count: number; held: boolean }>(
            SYSTEM,
            durableStep(name, { wanted, effect }, BATCH_SIZE, soon.settled()),
          )
          if (!step) return POLL_MS
          // Nobody wants the changes: own writes need not wake this reader, the poll is enough.
          isWanted = step.wanted
          if (isWanted) wakeable.add(waker)
          else wakeable.delete(waker)
          if (step.count > 0) onBatch(step.count)
          if (step.count === BATCH_SIZE) return 0
          return isWanted && step.held ? soon.next() : soon.reset(POLL_MS)
        },
      )
      return { wake: () => waker.poke() }
    },

    lagSeconds,
    lastLag: () => lag,

    async trim() {
      let total = 0
      for (let slice = TRIM_SLICE; slice === TRIM_SLICE && !stopped; total += slice) {
        slice = Number(await db.fly(SYSTEM, trimSlice(retentionSeconds, TRIM_SLICE), { lane: 'slow' }))
      }
      return total
    },

    async stop() {
      stopped = true
      clearTimeout(notifyTimer)
      for (const timer of timers) clearTimeout(timer)
      for (const waker of wakers) waker.stop()
      await unlisten?.().catch(() => undefined)
      await Promise.allSettled(loops)
    },
  }
}

/** Changes that wait for an older transaction are looked for soon, then ever less often and with more care. */
function createBackOff(): { next(): number; reset(ms: number): number; settled(): Settled } {
  let wait = 5
  return {
    next: () => {
      wait = Math.min(250, wait * 2)
      return wait
    },
    reset: (ms) => {
      wait = 5
      return ms
    },
    settled: () => (wait >= 80 ? 'database' : 'cluster'),
  }
}

function toChange(row: ChangeRow): Change[] {
  if (row.xid === null) return []
  const { xid, id, held: _held, ...rest } = row
  return [{ ...rest, position: `${xid}-${id}` }]
}
