import { clamp } from '../loop.ts'
import type { BackendPriority } from './backend-priority.ts'
import type { SchedulerClock } from './clock.ts'
import type { PooledConnection } from './request.ts'
import { TimedTexts } from './statement-timings.ts'
import {
  EXPENSIVE_FOR_MS,
  EXPENSIVE_MS,
  LONG_STATEMENT_MS,
  LONG_STATEMENT_NICE,
  LONG_STATEMENT_TICK_MS,
  MODERATE_NICE,
  MOST_TICK_MS,
} from './tuning.ts'

export type LongWork = {
  /** The server's own, for which callers' requests may wait. */
  readonly isOwn: boolean
  /** Slow work, whose text may tell how long it computes. */
  readonly slowText?: string | undefined
}

type Watched = LongWork & {
  readonly since: number
  /** Processor time of the backend before, or at the first tick, so that short statements cost nothing. */
  usedBefore?: number | undefined
  lookAt: number
  isLowered: boolean
  isKnownLong: boolean
}

/**
 * A statement that computes for long gives way to short ones: while it is at work its backend gets a small share of the
 * processor, where PostgreSQL is on the machine of this process. What waits for a lock or the disk computes nothing. Slow work
 * whose text computed for a while gives way a little from its beginning the next time: many such statements of some
 * milliseconds take a processor as well as one of seconds.
 */
export class LongStatements {
  readonly #priority: BackendPriority
  readonly #clock: SchedulerClock
  readonly #watched = new Map<PooledConnection, Watched>()
  /** Texts that took long, and of which it is measured whether they computed. */
  readonly #measured = new TimedTexts()
  readonly #expensive = new TimedTexts()
  /** Whether a backend could be raised again: undefined until one was. It takes rights that most servers do not have. */
  #mayRaise: boolean | undefined
  #stopTicking: (() => void) | undefined

  constructor(priority: BackendPriority, clock: SchedulerClock) {
    this.#priority = priority
    this.#clock = clock
  }

  /** Work begins that has the connection to itself. */
  began(connection: PooledConnection, work: LongWork): void {
    const now = this.#clock.now()
    const { slowText } = work
    const watched: Watched = {
      ...work,
      since: now,
      lookAt: now,
      isLowered: false,
      isKnownLong: false,
    }
    this.#watched.set(connection, watched)
    if (slowText !== undefined && this.#measured.has(slowText, now)) {
      watched.usedBefore = this.#usedMs(connection)
      const givesWay = this.#mayRaise === true && this.#expensive.has(slowText, now)
      if (watched.usedBefore !== undefined && givesWay) this.#lower(connection, watched, MODERATE_NICE)
    }
    this.#stopTicking ??= this.#clock.every(LONG_STATEMENT_TICK_MS, () => this.#tick())
  }

  /** It is over. A backend that cannot have its share back is not used again. */
  ended(connection: PooledConnection): void {
    const watched = this.#watched.get(connection)
    this.#watched.delete(connection)
    if (watched?.slowText !== undefined) this.#learn(watched.slowText, connection, watched)
    if (!watched?.isLowered) return
    const pid = connection.localBackend
    const isRaised = pid !== undefined && this.#priority.restore(pid)
    this.#mayRaise = isRaised && this.#mayRaise !== false
    if (!isRaised) void connection.close()
  }

  stop(): void {
    this.#stopTicking?.()
  }

  #tick(): void {
    if (this.#watched.size === 0) {
      this.#stopTicking?.()
      this.#stopTicking = undefined
    }
    const now = this.#clock.now()
    for (const [connection, watched] of this.#watched) {
      if (watched.isKnownLong || watched.lookAt > now) continue
      // What has waited for long mostly goes on to.
      watched.lookAt = now + clamp(LONG_STATEMENT_TICK_MS, (now - watched.since) / 8, MOST_TICK_MS)
      this.#look(connection, watched)
    }
  }

  #look(connection: PooledConnection, watched: Watched): void {
    const usedMs = this.#usedMs(connection)
    if (usedMs === undefined) {
      if (!watched.isLowered) this.#watched.delete(connection)
    } else if (watched.usedBefore === undefined) watched.usedBefore = usedMs
    else if (usedMs - watched.usedBefore >= LONG_STATEMENT_MS) {
      watched.isKnownLong = true
      this.#lower(connection, watched, watched.isOwn ? MODERATE_NICE : LONG_STATEMENT_NICE)
    }
  }

  #learn(text: string, connection: PooledConnection, { since, usedBefore }: Watched): void {
    const now = this.#clock.now()
    if (now - since >= EXPENSIVE_MS) this.#measured.add(text, now + EXPENSIVE_FOR_MS)
    if (usedBefore === undefined) return
    const usedMs = this.#usedMs(connection)
    if (usedMs !== undefined && usedMs - usedBefore >= EXPENSIVE_MS) this.#expensive.add(text, now + EXPENSIVE_FOR_MS)
    else this.#expensive.remove(text)
  }

  #lower({ localBackend: pid }: PooledConnection, watched: Watched, nice: number): void {
    if (pid === undefined || !this.#priority.lower(pid, nice)) return
    watched.isLowered = true
    if (watched.isKnownLong) this.#priority.lowerWorkers(pid, nice)
  }

  #usedMs({ localBackend: pid }: PooledConnection): number | undefined {
    return pid === undefined ? undefined : this.#priority.usedMs(pid)
  }
}
