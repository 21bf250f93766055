import { AppError } from '../../core/errors.ts'

/** A tenth of one connection's time for the filters of one identity, with room for a burst. */
const ROOM_MS = 2_000
const PER_SECOND_MS = 100
const MAX_KNOWN = 10_000
/** What a statement that hit its time limit counts as: so much that its identity has to rest. */
export const TIMED_OUT_MS = 2 * ROOM_MS

const DEAR_MS = 50
const MAX_REST_MS = 1_000

/** Filters of one identity that take long are judged for a quarter of the time: its own events are late, nobody else's. */
export const restAfter = (ms: number): number => (ms < DEAR_MS ? 0 : Math.min(3 * ms, MAX_REST_MS))

export const tooDear = (): AppError =>
  new AppError('rate_limited', 'filter takes too long', { headers: { 'Retry-After': '20' } })

/**
 * How much of the database's time the filters of each identity took. It outlives the streams: who is closed for it and
 * comes back at once finds it spent.
 */
export class FilterBudget {
  readonly #spent = new Map<string, { ms: number; at: number }>()

  spend(identity: string, ms: number): void {
    if (this.#spent.size >= MAX_KNOWN) this.#forgetRested()
    this.#spent.set(identity, { ms: this.#left(identity) + ms, at: performance.now() })
  }

  isSpent(identity: string): boolean {
    return this.#left(identity) > ROOM_MS
  }

  #left(identity: string): number {
    const known = this.#spent.get(identity)
    if (!known) return 0
    return Math.max(0, known.ms - ((performance.now() - known.at) / 1000) * PER_SECOND_MS)
  }

  #forgetRested(): void {
    for (const identity of this.#spent.keys()) if (this.#left(identity) === 0) this.#spent.delete(identity)
    if (this.#spent.size >= MAX_KNOWN) this.#spent.clear()
  }
}
