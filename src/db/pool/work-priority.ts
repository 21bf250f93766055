import type { BackendPriority } from './backend-priority.ts'
import type { SchedulerClock } from './clock.ts'
import type { PooledConnection } from './request.ts'
import type { Kind } from './reserves.ts'
import { LONG_STATEMENT_STEPS, LONG_STATEMENT_TICK_MS } from './tuning.ts'

type Watched = {
  /** Its backend, as at the first tick. */
  pid?: number | undefined
  /** Processor time of the backend at the first tick, so that short statements cost nothing. */
  usedBefore?: number
  /** Its backend has another share than an ordinary one. */
  isChanged: boolean
  /** How many of LONG_STATEMENT_STEPS it has gone down. */
  steps: number
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
    this.#watched.set(connection, { isChanged, steps: 0 })
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
    for (const [connection, watched] of this.#watched) this.#look(connection, watched)
  }

  #look(connection: PooledConnection, watched: Watched): void {
    const next = LONG_STATEMENT_STEPS[watched.steps]
    if (!next) return
    watched.pid ??= connection.localBackend
    const { pid, usedBefore } = watched
    const usedMs = pid === undefined ? undefined : this.#priority.usedMs(pid)
    if (pid === undefined || usedMs === undefined) this.#forget(connection, watched)
    else if (usedBefore === undefined) watched.usedBefore = usedMs
    else if (usedMs - usedBefore >= next.afterMs) {
      watched.steps++
      // Asked for again: by now the number may be that of another process.
      if (connection.localBackend === pid && this.#priority.lower(pid, next.nice)) watched.isChanged = true
      else this.#forget(connection, watched)
    }
  }

  /** Unless something is to be undone at its end. */
  #forget(connection: PooledConnection, watched: Watched): void {
    watched.steps = LONG_STATEMENT_STEPS.length
    if (!watched.isChanged) this.#watched.delete(connection)
  }
}
