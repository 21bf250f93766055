import type { BackendPriority } from './backend-priority.ts'
import type { SchedulerClock } from './clock.ts'
import type { PooledConnection } from './request.ts'
import { LONG_STATEMENT_MS, LONG_STATEMENT_NICE, LONG_STATEMENT_TICK_MS } from './tuning.ts'

type Watched = {
  /** Processor time of the backend at the first tick, so that short statements cost nothing. */
  usedBefore?: number
  isLowered: boolean
}

/**
 * A statement that computes for long gives way to short ones: while it is at work its backend gets a small share of the
 * processor, where PostgreSQL is on the machine of this process. What waits for a lock or the disk computes nothing.
 */
export class LongStatements {
  readonly #priority: BackendPriority
  readonly #clock: SchedulerClock
  readonly #watched = new Map<PooledConnection, Watched>()
  #stopTicking: (() => void) | undefined

  constructor(priority: BackendPriority, clock: SchedulerClock) {
    this.#priority = priority
    this.#clock = clock
  }

  /** Work begins that has the connection to itself. */
  began(connection: PooledConnection): void {
    this.#watched.set(connection, { isLowered: false })
    this.#stopTicking ??= this.#clock.every(LONG_STATEMENT_TICK_MS, () => this.#tick())
  }

  /** It is over. A backend that cannot have its share back is not used again. */
  ended(connection: PooledConnection): void {
    const watched = this.#watched.get(connection)
    this.#watched.delete(connection)
    if (!watched?.isLowered) return
    const pid = connection.localBackend
    if (pid === undefined || !this.#priority.restore(pid)) void connection.close()
  }

  stop(): void {
    this.#stopTicking?.()
  }

  #tick(): void {
    if (this.#watched.size === 0) {
      this.#stopTicking?.()
      this.#stopTicking = undefined
    }
    for (const [connection, watched] of this.#watched) if (!watched.isLowered) this.#look(connection, watched)
  }

  #look(connection: PooledConnection, watched: Watched): void {
    const pid = connection.localBackend
    const usedMs = pid === undefined ? undefined : this.#priority.usedMs(pid)
    if (pid === undefined || usedMs === undefined) this.#watched.delete(connection)
    else if (watched.usedBefore === undefined) watched.usedBefore = usedMs
    else if (usedMs - watched.usedBefore >= LONG_STATEMENT_MS) {
      watched.isLowered = this.#priority.lower(pid, LONG_STATEMENT_NICE)
      if (!watched.isLowered) this.#watched.delete(connection)
    }
  }
}
