import { sleep } from '../../core/clock.ts'
import { AppError, hasStatus } from '../../core/errors.ts'
import { databaseSession, type Identity, SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db, FlyOptions } from '../db.ts'
import { isBadValue } from '../pg-errors.ts'
import type { Pool, PoolOptions } from '../pool/pool.ts'
import {
  endOfRecord,
  FARTHEST,
  headerOf,
  type Lsn,
  lsnOf,
  lsnOfHeader,
  type WrittenPositions,
} from '../pool/positions.ts'
import type { Schema } from '../schema/snapshot.ts'
import { sql } from '../sql.ts'
import { Replica } from './replica.ts'
import { VolatileRelations } from './volatile.ts'

/** While callers read, and while none does. */
const ACTIVE_MS = 15
const RESTING_MS = 250
const REST_AFTER_MS = 1_000
const MAX_SAMPLES = 128
/** So many reads under way keep a replica busy: from there on the primary helps, with half as many at most. */
const BUSY_READS = 8
/** A primary that is busy answers late: what it said last counts for so long. */
const KNOWN_FOR_MS = 1_000

const SAMPLE = sql`select pg_current_wal_insert_lsn()::text || ' ' || pg_current_wal_flush_lsn()::text
  || ' ' || current_setting('wal_block_size')`

export type ReplicasDeps = {
  urls: readonly string[]
  db: Pool
  positions: WrittenPositions
  pool: Omit<PoolOptions, 'url' | 'directUrl' | 'observe'>
  statementTimeoutMs: number
  observe: Observe
}

type Reader = Pick<Db, 'fly'>
/** With how many reads are under way. */
type Lane = Reader & { reads: number }
type Fly = (who: Identity, statement: unknown, options?: FlyOptions) => Promise<unknown>

/** Who reads, with which `Svc-Position`, and which relations; undefined: any. */
export type ReadRequest = {
  who: Identity
  position: string | undefined
  schema: Schema
  oids: readonly number[] | undefined
}

/** Reads of callers go to a replica that has replayed what they must find; everything else, and every failure, to the primary. */
export class Replicas {
  readonly #deps: ReplicasDeps
  readonly #replicas: readonly Replica[]
  readonly #lanes = new Map<Replica, Lane>()
  readonly #helper: Lane
  readonly #volatile: VolatileRelations
  readonly #sampling: Promise<void>
  #samples: { at: number; lsn: Lsn }[] = []
  #timeline = 0
  #readAt = 0
  #turn = 0
  #isStopped = false

  constructor(deps: ReplicasDeps) {
    this.#deps = deps
    this.#volatile = new VolatileRelations(deps.db)
    this.#timeline = deps.db.timeline()
    this.#replicas = deps.urls.map(
      (url) =>
        new Replica({
          url,
          pool: deps.pool,
          observe: deps.observe,
          timeline: () => this.#timeline,
          everyMs: () => this.#everyMs(),
          reachedAt: (lsn) => this.#reachedAt(lsn),
          last: () => deps.positions.last,
          onReplayed: () => this.#forget(),
        }),
    )
    for (const replica of this.#replicas) this.#lanes.set(replica, this.#laneOf(replica))
    this.#helper = laneBy(deps.db.fly.bind(deps.db) as unknown as Fly)
    this.#sampling = this.#sample()
  }

  /** Where this caller may read: a replica, or the primary. */
  from({ who, position, schema, oids }: ReadRequest): Reader {
    const { db, positions } = this.#deps
    const now = performance.now()
    this.#readAt = now
    if (databaseSession(who).role === 'none' || this.#timeline !== db.timeline()) return db
    if (this.#volatile.has(schema, oids)) return db
    const own = positions.needOf(who)
    const sent = lsnOfHeader(position, this.#timeline) ?? 0n
    const need = own > sent ? own : sent
    for (let i = 0; i < this.#replicas.length; i++) {
      this.#turn = (this.#turn + 1) % this.#replicas.length
      const replica = this.#replicas[this.#turn]
      const lane = replica?.isUsable(now) && replica.replayed >= need ? this.#lanes.get(replica) : undefined
      if (!lane) continue
      return lane.reads >= BUSY_READS && this.#helper.reads * 2 < lane.reads ? this.#helper : lane
    }
    return db
  }

  /** `Svc-Position` of an answer to a write; undefined when it is not known. */
  wrote(who: Identity): string | undefined {
    const { positions, db } = this.#deps
    positions.finished(who)
    if (positions.isLost) return headerOf(db.timeline(), FARTHEST)
    return positions.last === 0n ? undefined : headerOf(db.timeline(), positions.last)
  }

  /** For gauges: replicas in use. */
  get inUse(): number {
    const now = performance.now()
    return this.#replicas.filter((replica) => replica.isUsable(now)).length
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all([this.#sampling, ...this.#replicas.map((replica) => replica.stop())])
  }

  #laneOf(replica: Replica): Lane {
    const { db, statementTimeoutMs } = this.#deps
    return laneBy(async (who, statement, options = {}) => {
      const { pool, life } = replica
      const beganAt = performance.now()
      try {
        if (pool) {
          const answer = await (pool.fly as unknown as Fly)(who, statement, options)
          if (replica.life === life) return answer
        }
      } catch (error) {
        if (isFinal(error)) throw error
      }
      const left = (options.timeoutMs ?? statementTimeoutMs) - (performance.now() - beganAt)
      return (db.fly as unknown as Fly)(who, statement, { ...options, timeoutMs: Math.max(1_000, Math.round(left)) })
    })
  }

  #everyMs(): number {
    return performance.now() - this.#readAt < REST_AFTER_MS ? ACTIVE_MS : RESTING_MS
  }

  async #sample(): Promise<void> {
    const { db, positions } = this.#deps
    while (!this.#isStopped) {
      try {
        const at = performance.now()
        const known = positions.unknowns
        const timeline = db.timeline()
        const [inserted = '0/0', flushed = '0/0', page = '8192'] = ((await db.fly(SYSTEM, SAMPLE)) ?? '').split(' ')
        if (timeline !== this.#timeline) {
          this.#timeline = timeline
          this.#samples = []
          positions.restart()
        } else positions.sampled(endOfRecord(lsnOf(inserted), BigInt(page)), known)
        this.#samples.push({ at, lsn: lsnOf(flushed) })
        if (this.#samples.length > MAX_SAMPLES) this.#samples = this.#samples.slice(MAX_SAMPLES / 2)
      } catch {
        positions.lost() // the primary is away, which its monitor says
      }
      await sleep(this.#everyMs())
    }
  }

  #reachedAt(lsn: Lsn): number | undefined {
    const [now, newest] = [performance.now(), this.#samples.at(-1)]
    // Not behind anything that is known.
    if (newest && newest.lsn <= lsn && now - newest.at < KNOWN_FOR_MS) return now
    return this.#samples.findLast((sample) => sample.lsn <= lsn)?.at
  }

  #forget(): void {
    const now = performance.now()
    const used = this.#replicas.filter((replica) => replica.isUsable(now)).map(({ replayed }) => replayed)
    const least = used.reduce((a, b) => (a < b ? a : b), this.#deps.positions.last)
    this.#deps.positions.forget(least)
  }
}

function laneBy(read: Fly): Lane {
  const fly: Fly = async (who, statement, options) => {
    lane.reads++
    try {
      return await read(who, statement, options)
    } finally {
      lane.reads--
    }
  }
  const lane: Lane = { reads: 0, fly: fly as Reader['fly'] }
  return lane
}

/** The primary would say the same, or there is no time left for it. */
const isFinal = (error: unknown): boolean =>
  hasStatus(error, 504) ||
  isBadValue(error) ||
  (error instanceof AppError && (error.errorCode === 'response_too_large' || error.errorCode === 'request_timeout'))
