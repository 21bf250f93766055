import { unavailable } from '../../../core/errors.ts'

/**
 * Circuit breaker: after repeated failures calls fail at once for a while, instead of waiting for another timeout. Then a
 * single call probes whether the provider has recovered.
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

  /** `isFailure` decides which errors count. */
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
