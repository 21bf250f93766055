import { type Clock, sleep } from '../../../core/clock.ts'
import { AppError, hasStatus } from '../../../core/errors.ts'
import { KeyedMutex, Semaphore } from '../../../core/limits.ts'

/** Filters that PostgreSQL evaluates at a time. */
const SLOTS = 2
/** A tenth of one connection's time for the filters of one identity, with room for a burst. */
const ROOM_MS = 2_000
const PER_SECOND_MS = 100
/** The cost of a filter that hit its time limit: its identity has to stop. */
const TIMED_OUT_MS = 2 * ROOM_MS
/** After an expensive filter its identity rests for three times as long: its own events are late, no other's. */
const EXPENSIVE_MS = 50
const MAX_REST_MS = 1_000
const MAX_KNOWN = 10_000

const tooExpensive = (): AppError =>
  new AppError('filter_too_slow', 'filter takes too long', { headers: { 'Retry-After': '20' } })

/**
 * Callers write filters, so each identity waits for its own: one filter at a time, within a budget of PostgreSQL's time.
 * The budget outlives the streams: a caller whose streams were closed for it and that comes back at once finds it spent.
 */
export class FilterQueue {
  readonly #clock: Clock
  readonly #slots = new Semaphore(SLOTS)
  readonly #identities = new KeyedMutex()
  readonly #spent = new Map<string, { ms: number; at: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Throws while the filters of this identity have taken too much time. */
  requireBudget(identity: string): void {
    if (this.#leftOver(identity) > ROOM_MS) throw tooExpensive()
  }

  /** `evaluate` answers how many milliseconds PostgreSQL took. */
  async run<T extends { ms: number }>(identity: string, evaluate: () => Promise<T>): Promise<T> {
    return this.#identities.run(identity, async () => {
      this.requireBudget(identity)
      const result = await this.#slots.run(evaluate).catch((error: unknown) => {
        if (!hasStatus(error, 504)) throw error
        this.#spend(identity, TIMED_OUT_MS)
        throw tooExpensive()
      })
      this.#spend(identity, result.ms)
      if (result.ms >= EXPENSIVE_MS) await sleep(Math.min(3 * result.ms, MAX_REST_MS))
      return result
    })
  }

  #spend(identity: string, ms: number): void {
    if (this.#spent.size >= MAX_KNOWN) {
      for (const rested of this.#spent.keys()) if (this.#leftOver(rested) === 0) this.#spent.delete(rested)
    }
    this.#spent.set(identity, { ms: this.#leftOver(identity) + ms, at: this.#clock.now() })
  }

  /** Milliseconds of earlier filters that the passing of time has not paid for. */
  #leftOver(identity: string): number {
    const spent = this.#spent.get(identity)
    if (!spent) return 0
    return Math.max(0, spent.ms - ((this.#clock.now() - spent.at) / 1000) * PER_SECOND_MS)
  }
}
