import { unavailable } from '../core/errors.ts'
import type { Connection } from './connection.ts'

type Waiter = { resolve(connection: Connection): void; reject(error: Error): void; timer: NodeJS.Timeout }

export type LaneOptions = {
  max: number
  min: number
  /** Flights that may be on the wire of one connection; 1 = exclusive. */
  depth: number
  acquireTimeoutMs: number
  open(onClose: (connection: Connection) => void): Promise<Connection>
  /** Told about each failure and success to connect, so that the pool knows whether the database is there. */
  onOpened(): void
  onOpenFailed(error: Error): void
}

/** A connection whose flight was begun this recently will be free soon; joining it costs less than waking another. */
const QUICK_MS = 2
const SHARED = 4
const IDLE_MS = 60_000

/**
 * A set of connections for one kind of work. An idle connection is preferred; a flight joins a busy one only when
 * all are busy and no more may be opened, and then only to a small depth.
 */
export class Lane {
  readonly #options: LaneOptions
  readonly #connections = new Set<Connection>()
  readonly #waiters: Waiter[] = []
  #opening = 0
  #closed = false

  constructor(options: LaneOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#connections.size
  }
  get idle(): number {
    let idle = 0
    for (const connection of this.#connections) if (connection.taken === 0) idle++
    return idle
  }
  get waiting(): number {
    return this.#waiters.length
  }
  get max(): number {
    return this.#options.max
  }

  /** Takes a slot. `release` it in every case. */
  acquire(): Promise<Connection> | Connection {
    const free = this.#pick()
    if (free) return this.#take(free)
    if (this.#closed) throw unavailable('database unavailable')
    this.#grow()
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1)
        reject(unavailable('database unavailable'))
      }, this.#options.acquireTimeoutMs)
      const waiter: Waiter = { resolve, reject, timer }
      this.#waiters.push(waiter)
    })
  }

  release(connection: Connection): void {
    connection.taken--
    if (this.#waiters.length > 0) this.#serveWaiters()
  }

  /** The database is not there: nobody waits for it. */
  failWaiters(error: Error): void {
    for (const waiter of this.#waiters.splice(0)) {
      clearTimeout(waiter.timer)
      waiter.reject(error)
    }
  }

  /** Opens the minimum and whatever the waiters need. */
  async warm(): Promise<void> {
    const missing = Math.max(0, this.#options.min - this.#connections.size - this.#opening)
    await Promise.all(Array.from({ length: missing }, () => this.#open()))
  }

  /** Ends connections that nobody used for a while. */
  trim(): void {
    for (const connection of this.#connections) {
      if (this.#connections.size <= this.#options.min) return
      if (connection.taken === 0 && performance.now() - connection.idleSince > IDLE_MS) {
        this.#forget(connection)
        void connection.close()
      }
    }
  }

  destroyAll(): void {
    for (const connection of this.#connections) connection.destroy()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.failWaiters(unavailable('database unavailable'))
    await Promise.all([...this.#connections].map((connection) => connection.close()))
  }

  #pick(): Connection | undefined {
    let best: Connection | undefined
    let bestTaken = this.#options.depth
    const lately = bestTaken > 1 ? performance.now() - QUICK_MS : Number.POSITIVE_INFINITY
    for (const connection of this.#connections) {
      if (connection.closed) continue
      if (connection.taken === 0) return connection
      if (connection.taken < SHARED && connection.busySince > lately) return connection
      if (connection.taken < bestTaken) {
        best = connection
        bestTaken = connection.taken
      }
    }
    if (best && this.#connections.size + this.#opening < this.#options.max) this.#grow()
    return best
  }

  #take(connection: Connection): Connection {
    connection.taken++
    return connection
  }

  #grow(): void {
    if (this.#closed || this.#connections.size + this.#opening >= this.#options.max) return
    this.#open().catch(() => {}) // reported through onOpenFailed
  }

  async #open(): Promise<void> {
    this.#opening++
    try {
      const connection = await this.#options.open((closed) => {
        this.#forget(closed)
        if (this.#waiters.length > 0) this.#grow()
      })
      if (this.#closed) return void connection.close()
      this.#connections.add(connection)
      this.#options.onOpened()
      this.#serveWaiters()
    } catch (error) {
      this.#options.onOpenFailed(error as Error)
      throw error
    } finally {
      this.#opening--
    }
  }

  #forget(connection: Connection): void {
    this.#connections.delete(connection)
  }

  #serveWaiters(): void {
    while (this.#waiters.length > 0) {
      const free = this.#pick()
      if (!free) return
      const waiter = this.#waiters.shift()
      if (!waiter) return
      clearTimeout(waiter.timer)
      waiter.resolve(this.#take(free))
    }
  }
}
