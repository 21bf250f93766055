import type pg from 'pg'
import { sleep } from '../../core/clock.ts'
import type { Observe } from '../../core/observe.ts'
import { openPool, type Pool, type PoolOptions } from '../pool/pool.ts'
import { type Lsn, lsnOf } from '../pool/positions.ts'
import { destroy, openConnection } from '../protocol/driver.ts'
import { hostNames } from '../protocol/hosts.ts'

/** A replica that is behind for longer is passed by. */
const MAX_BEHIND_MS = 50
/** One that does not answer the next look for so long is passed by too: busy ones take longer than those that are behind. */
const MAX_LOOK_MS = 200
/** One that answers nothing for so long is given up; its flights are flown on the primary. */
const SILENT_MS = 5_000
const LOOK_AGAIN_MS = 250

/** Whether it has replayed what the server noted on this timeline shows that it follows this primary. */
const PROBE = `
  select pg_catalog.pg_is_in_recovery() as standby, pg_catalog.pg_last_wal_replay_lsn()::text as replayed,
    exists (select from svc.timelines t where t.home = svc.change_home() and t.timeline = $1) as same`

type ProbeRow = { standby: string; replayed: string | null; same: string }

export type ReplicaDeps = {
  url: string
  pool: Omit<PoolOptions, 'url' | 'directUrl' | 'observe'>
  observe: Observe
  timeline(): number
  /** Milliseconds until the next look. */
  everyMs(): number
  /** When the primary was at this point, or before it: now, where it is not known to be further. Undefined when that is too long ago. */
  reachedAt(lsn: Lsn): number | undefined
  /** What a replica must have before it is used again. */
  last(): Lsn
  onReplayed(): void
}

/** One standby that serves reads while it is close behind the primary. */
export class Replica {
  readonly name: string
  readonly #deps: ReplicaDeps
  readonly #running: Promise<void>
  #pool: Pool | undefined
  #client: pg.Client | undefined
  #replayed: Lsn = 0n
  #isFollowing = false
  #life = 0
  /** On which timeline it was seen to follow. */
  #timeline = 0
  #behindMs = Number.POSITIVE_INFINITY
  /** When it was asked what it did not answer yet; 0 = nothing. */
  #askedAt = 0
  #isStopped = false

  constructor(deps: ReplicaDeps) {
    this.#deps = deps
    this.name = hostNames(deps.url)
    this.#running = this.#run()
  }

  get pool(): Pool | undefined {
    return this.#pool
  }

  get replayed(): Lsn {
    return this.#replayed
  }

  /** Another one as soon as it may have restarted, which may be further back than it was. */
  get life(): number {
    return this.#life
  }

  get behindMs(): number {
    return this.#behindMs
  }

  isUsable(now: number): boolean {
    if (!this.#isFollowing || this.#behindMs > MAX_BEHIND_MS || this.#timeline !== this.#deps.timeline()) return false
    return this.#askedAt === 0 || now - this.#askedAt <= MAX_LOOK_MS
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#client) destroy(this.#client)
    await this.#running
    await this.#pool?.stop()
  }

  /** A dead replica stops nothing: it is looked for until it is there. */
  async #run(): Promise<void> {
    let wasThere: boolean | undefined
    const told = (isThere: boolean): void => {
      if (wasThere === isThere || this.#isStopped) return
      wasThere = isThere
      this.#deps.observe({ message: isThere ? 'replica in use' : 'replica away', attrs: { replica: this.name } })
    }
    while (!this.#isStopped) {
      try {
        await this.#follow(() => told(true))
      } catch {
        told(false)
      }
      this.#askedAt = 0
      if (!this.#isStopped) await sleep(LOOK_AGAIN_MS)
    }
  }

  async #follow(onUse: () => void): Promise<void> {
    const { url, pool, observe } = this.#deps
    this.#pool ??= await openPool({ ...pool, url, observe: quiet(observe), isReplica: true })
    const client = await openConnection({ url, applicationName: 'savanna replica', connectTimeoutMs: SILENT_MS })
    this.#client = client
    // Its end is here before anything that a server says which started again.
    client.once('end', () => this.#endLife())
    try {
      while (!this.#isStopped) {
        await this.#look(client)
        if (this.#isFollowing) onUse()
        await sleep(this.#deps.everyMs())
      }
    } finally {
      this.#client = undefined
      this.#endLife()
      destroy(client)
    }
  }

  #endLife(): void {
    this.#isFollowing = false
    this.#life++
  }

  async #look(client: pg.Client): Promise<void> {
    const askedAt = performance.now()
    this.#askedAt = askedAt
    const timeline = this.#deps.timeline()
    const silence = setTimeout(() => destroy(client), SILENT_MS)
    const { rows } = await client.query<ProbeRow>(PROBE, [timeline]).finally(() => clearTimeout(silence))
    this.#askedAt = 0
    const [row] = rows
    if (row?.standby !== 't' || row.same !== 't' || row.replayed === null) {
      return this.#endLife()
    }
    if (timeline !== this.#timeline) this.#isFollowing = false
    this.#timeline = timeline
    this.#replayed = lsnOf(row.replayed)
    const reachedAt = this.#deps.reachedAt(this.#replayed)
    this.#behindMs = reachedAt === undefined ? Number.POSITIVE_INFINITY : Math.max(0, askedAt - reachedAt)
    // What was forgotten because it was not in use is there before it is used again.
    if (performance.now() - askedAt > MAX_LOOK_MS) this.#isFollowing = false
    this.#isFollowing ||= this.#replayed >= this.#deps.last()
    if (this.#behindMs > MAX_BEHIND_MS) this.#isFollowing = false
    this.#deps.onReplayed()
  }
}

/** That a replica is away is said once, by its own words. */
const quiet =
  (observe: Observe): Observe =>
  (observation) => {
    if (observation.message !== 'database unreachable' && observation.message !== 'database reachable') {
      observe(observation)
    }
  }
