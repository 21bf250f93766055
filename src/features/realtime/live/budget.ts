/** The part of one connection's time that the reads of one caller may take, with room for a burst. */
const SHARE = 0.25
const ROOM_MS = 1_000
const MAX_KNOWN = 10_000

/** How often the lists of a caller are read, by the time that they took. */
export class LiveBudget {
  readonly #spent = new Map<string, { ms: number; at: number }>()

  /** Milliseconds until the list that was read in `ms` may be read again. */
  pauseAfter(payer: string, ms: number): number {
    if (this.#spent.size >= MAX_KNOWN) {
      for (const rested of this.#spent.keys()) if (this.#left(rested) === 0) this.#spent.delete(rested)
    }
    const left = this.#left(payer) + ms
    this.#spent.set(payer, { ms: left, at: performance.now() })
    return Math.max(ms, left - ROOM_MS) / SHARE
  }

  #left(payer: string): number {
    const spent = this.#spent.get(payer)
    return spent ? Math.max(0, spent.ms - (performance.now() - spent.at) * SHARE) : 0
  }
}
