import type { BackendPriority } from './backend-priority.ts'
import type { SchedulerClock } from './clock.ts'
import type { PooledConnection } from './request.ts'
import type { Kind } from './reserves.ts'
import { LONG_STATEMENT_MS, LONG_STATEMENT_NICE, LONG_STATEMENT_TICK_MS } from './tuning.ts'

type Watched = {
  /** Its backend, as at the first tick. */
  pid?: number | undefined
  /** Processor time of the backend at the first tick, so that short statements cost nothing. */
  usedBefore?: number
  /** Its backend has another share than an ordinary one. */
  isChanged: boolean
}

/**
 * The share of the processor of each backend follows its work, where PostgreSQL is on the machine of this process. Short work,
 * which shares connections, comes before all other, with the share of the server itself: a backend that waits for a processor with
 * a lock of PostgreSQL's log in its hand holds up every other write. A statement that computes for long gives way while
 * it is at work; what waits for a lock or the disk computes nothing.
 */
export class WorkPriority {
  readonly #priority: BackendPriority
  readonly #clock: SchedulerClock
  readonly #watched = new Map<PooledConnection, Watched>()
  /** They stay so until other work comes, so that nothing is set for each request. */
  readonly #raised = new WeakSet<PooledConnection>()
  #mayRaise = true
  #stopTicking: (() => void) | undefined

  constructor(priority: BackendPriority, clock: SchedulerClock) {
    this.#priority = priority
    this.#clock = clock
  }

  /** Work begins on a connection that rested. */
  began(connection: PooledConnection, kind: Kind): void {
    if (kind === 'row' || kind === 'read') this.#raise(connection)
    else {
      const isChanged = this.#raised.delete(connection) && !this.#restore(connection)
      this.#watch(connection, isChanged)
    }
  }

  /** It is over. A backend that cannot have its share back is not used again. */
  ended(connection: PooledConnection): void {
    const watched = this.#watched.get(connection)
    this.#watched.delete(connection)
    if (watched?.isChanged && !this.#restore(connection)) void connection.close()
  }

  stop(): void {
    this.#stopTicking?.()
  }

  #watch(connection: PooledConnection, isChanged: boolean): void {
    this.#watched.set(connection, { isChanged })
    this.#stopTicking ??= this.#clock.every(LONG_STATEMENT_TICK_MS, () => this.#tick())
  }

  #raise(connection: PooledConnection): void {
    const pid = this.#mayRaise && !this.#raised.has(connection) ? connection.localBackend : undefined
    if (pid === undefined) return
    this.#mayRaise = this.#priority.raise(pid)
    if (this.#mayRaise) this.#raised.add(connection)
  }

  #restore(connection: PooledConnection): boolean {
    const pid = connection.localBackend
    return pid !== undefined && this.#priority.restore(pid)
  }

  #tick(): void {
    if (this.#watched.size === 0) {
      this.#stopTicking?.()
      this.#stopTicking = undefined
    }
    for (const [connection, watched] of this.#watched) if (!watched.isChanged) this.#look(connection, watched)
  }

  #look(connection: PooledConnection, watched: Watched): void {
    watched.pid ??= connection.localBackend
    const { pid, usedBefore } = watched
    const usedMs = pid === undefined ? undefined : this.#priority.usedMs(pid)
    if (pid === undefined || usedMs === undefined) this.#watched.delete(connection)
    else if (usedBefore === undefined) watched.usedBefore = usedMs
    else if (usedMs - usedBefore >= LONG_STATEMENT_MS) {
      // Asked for again: by now the number may be that of another process.
      watched.isChanged = connection.localBackend === pid && this.#priority.lower(pid, LONG_STATEMENT_NICE)
      if (!watched.isChanged) this.#watched.delete(connection)
    }
  }
}
