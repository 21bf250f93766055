import type { Clock } from '../../../core/clock.ts'
import { AppError } from '../../../core/errors.ts'

/** Of a connection at rest, and how many it gets back each second. */
const MOST_POINTS = 1_200
const POINTS_PER_SECOND = 20

/** What a message costs: PostgreSQL is asked about those that replay the past, filter, or bring a token. */
export const COST = { cheap: 1, join: 4, dear: 12 } as const

/** Bounds the messages of one connection: about a thousand cheap ones, or a hundred others, at a time. */
export class MessageBudget {
  readonly #clock: Clock
  #points = MOST_POINTS
  #since: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#since = clock.now()
  }

  /** Throws when the connection has sent too much. */
  spend(cost: number): void {
    const now = this.#clock.now()
    this.#points = Math.min(MOST_POINTS, this.#points + ((now - this.#since) / 1000) * POINTS_PER_SECOND)
    this.#since = now
    if (this.#points < cost)
      throw new AppError('rate_limited', 'too many messages', { headers: { 'Retry-After': '1' } })
    this.#points -= cost
  }
}
