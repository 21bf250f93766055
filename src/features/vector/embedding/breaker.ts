import { unavailable } from '../../../core/errors.ts'

/**
 * Who fails again and again is left alone for a while: callers hear it at once instead of waiting for one more timeout.
 * Afterwards one call finds out whether it is back.
 */
export class Breaker {
  readonly #threshold: number
  readonly #openMs: number
  readonly #now: () => number
  #failures = 0
  #openUntil = 0
  #isTrying = false

  constructor(options: { threshold: number; openSeconds: number; now?: () => number }) {
    this.#threshold = options.threshold
    this.#openMs = options.openSeconds * 1000
    this.#now = options.now ?? (() => performance.now())
  }

  /** `isFailure` says which errors count against the one who is called. */
  async run<T>(work: () => Promise<T>, isFailure: (error: unknown) => boolean): Promise<T> {
    const isOpen = this.#failures >= this.#threshold
    const waitMs = this.#openUntil - this.#now()
    if (isOpen && (waitMs > 0 || this.#isTrying)) {
      throw unavailable(
        'embedding provider is unavailable',
        Math.max(1, Math.ceil(waitMs / 1000)),
        'provider_unavailable',
      )
    }
    if (isOpen) this.#isTrying = true
    try {
      const result = await work()
      this.#failures = 0
      return result
    } catch (error) {
      if (isFailure(error)) {
        this.#failures++
        this.#openUntil = this.#now() + this.#openMs
      }
      throw error
    } finally {
      if (isOpen) this.#isTrying = false
    }
  }
}
