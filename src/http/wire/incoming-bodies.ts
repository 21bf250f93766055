import { AppError, serverBusy } from '../../core/errors.ts'
import { Budget, type BudgetLimits, type Reservation } from '../../core/limits.ts'

export type IncomingPace = { readonly graceMs: number; readonly bytesPerSecond: number }

type Sender = { since: number; bytes: number; refuse: (error: AppError) => void }

/** Limits incomplete request bodies, so that slow senders cannot fill the memory or occupy `maxConcurrent`. */
export class IncomingBodies {
  readonly #budget: Budget
  readonly #pace: IncomingPace
  readonly #senders = new Set<Sender>()
  #timer: NodeJS.Timeout | undefined

  constructor(limits: BudgetLimits, pace: IncomingPace) {
    this.#budget = new Budget(limits)
    this.#pace = pace
  }

  get count(): number {
    return this.#senders.size
  }

  /** `refuse` is called at most once, when the sender is too slow or is evicted from the budget. */
  begin(address: string, refuse: (error: AppError) => void): Reservation {
    const sender: Sender = { since: performance.now(), bytes: 0, refuse }
    const reservation = this.#budget.reserve(address, () => refuse(serverBusy()))
    this.#senders.add(sender)
    this.#timer ??= setInterval(() => this.#checkPace(), Math.min(1000, this.#pace.graceMs)).unref()
    return {
      grow: (bytes) => {
        sender.bytes += bytes
        reservation.grow(bytes)
      },
      renew: () => reservation.renew(),
      release: () => {
        reservation.release()
        this.#senders.delete(sender)
      },
    }
  }

  /** The timer runs until there are no senders, because restarting it for each body would be slower. */
  #checkPace(): void {
    if (this.#senders.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    const { graceMs, bytesPerSecond } = this.#pace
    const now = performance.now()
    for (const { since, bytes, refuse } of this.#senders) {
      const expected = ((now - since - graceMs) / 1000) * bytesPerSecond
      if (bytes < expected) refuse(new AppError('request_timeout', 'request timeout'))
    }
  }
}
