import { unavailable } from '../../core/errors.ts'
import type { Connection } from './connection.ts'

type Waiter = { resolve(connection: Connection): void; reject(error: Error): void; timer: NodeJS.Timeout }

export type LaneOptions = {
  max: number
  min: number
  /** Flights that may be on the wire of one connection; 1 = exclusive. */
  depth: number
  /** Connections that are put to use before flights wait; more only in place of those held up by a slow flight. */
  crowd: number
  acquireTimeoutMs: number
  open(onClose: (connection: Connection) => void): Promise<Connection>
  /** Told about each failure and success to connect, so that the pool knows whether the database is there. */
  onOpened(): void
  onOpenFailed(error: Error): void
}

/** A connection that is at one flight for longer than this is left alone. */
const HELD_UP_MS = 20
const IDLE_MS = 60_000

/** A set of connections for one kind of work; a flight may join others on a connection, to a small depth. */
export class Lane {
  readonly #options: LaneOptions
  readonly #connections = new Set<Connection>()
  readonly #waiters: Waiter[] = []
  #opening = 0
  /** Slots given away on all connections. */
  #taken = 0
  #lookTimer: NodeJS.Timeout | undefined
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
    this.#lookAgainSoon()
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
    this.#taken--
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
    clearTimeout(this.#lookTimer)
    this.failWaiters(unavailable('database unavailable'))
    await Promise.all([...this.#connections].map((connection) => connection.close()))
  }

  /**
   * The least busy of as few connections as suffice, not counting those held up by a slow flight; see
   * docs/decisions/0004-lanes-and-shared-connections.md.
   */
  #pick(): Connection | undefined {
    const { depth, crowd } = this.#options
    const enough = Math.min(crowd, Math.ceil((this.#taken + 1) / depth))
    const lately = performance.now() - HELD_UP_MS
    let best: Connection | undefined
    let heldUp: Connection | undefined
    let seen = 0
    for (const connection of this.#connections) {
      const { taken } = connection
      if (connection.closed) continue
      if (taken > 0 && connection.busySince <= lately) {
        if (taken < (heldUp?.taken ?? depth)) heldUp = connection
        continue
      }
      if (++seen > enough) break
      if (taken < (best?.taken ?? depth)) best = connection
    }
    if (seen < enough && this.#grow()) return best
    return best ?? (seen < enough ? heldUp : undefined)
  }

  #take(connection: Connection): Connection {
    connection.taken++
    this.#taken++
    return connection
  }

  /** False when there are as many as there may be. */
  #grow(): boolean {
    if (this.#closed || this.#connections.size + this.#opening >= this.#options.max) return false
    this.#open().catch(() => {}) // reported through onOpenFailed
    return true
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

  /** Connections that were quick when a flight began to wait may be held up by now; then others are taken. */
  #lookAgainSoon(): void {
    this.#lookTimer ??= setTimeout(() => {
      this.#lookTimer = undefined
      this.#serveWaiters()
      if (this.#waiters.length > 0) this.#lookAgainSoon()
    }, HELD_UP_MS)
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
