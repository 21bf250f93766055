import { sleep } from '../../../core/clock.ts'
import { AppError, hasStatus, serverBusy } from '../../../core/errors.ts'
import { Semaphore } from '../../../core/limits.ts'
import type { ObservedMessage } from '../../../core/observations.ts'
import type { Observe } from '../../../core/observe.ts'
import { type Outgoing, OutgoingError } from '../../../http/out/outgoing.ts'
import { retryAfterOf } from '../../../http/out/retry-after.ts'
import { Breaker } from './breaker.ts'
import { type Dialect, readVectors, requestVectors } from './dialects.ts'
import { type EmbeddingProvider, RefusedText } from './provider.ts'

type Options = {
  outgoing: Outgoing
  dialect: Dialect
  /** Seconds, per attempt. */
  timeout: number
  maxRetries: number
  breaker: { failure_threshold: number; open_seconds: number }
  observe: Observe
}

/** Concurrent requests of this process, so that a hanging provider does not hold all callers. */
const MAX_AT_ONCE = 32
const FIRST_WAIT_MS = 100
const LONGEST_WAIT_MS = 2_000

/** A provider over the network, with retries and a circuit breaker. */
export class RemoteProvider implements EmbeddingProvider {
  readonly #options: Options
  readonly #breaker: Breaker
  readonly #requests = new Semaphore(MAX_AT_ONCE)

  constructor(options: Options) {
    this.#options = options
    const { failure_threshold: threshold, open_seconds: openSeconds } = options.breaker
    this.#breaker = new Breaker({ threshold, openSeconds })
  }

  async embed(texts: readonly string[]): Promise<readonly (readonly number[])[]> {
    if (this.#requests.isFull) throw serverBusy()
    return this.#requests.run(() => this.#breaker.run(() => this.#tryAll(texts), isFailure))
  }

  async #tryAll(texts: readonly string[]): Promise<number[][]> {
    for (let retries = 0; ; retries++) {
      const outcome = await this.#tryOnce(texts)
      if (Array.isArray(outcome)) return outcome
      const { error, again } = outcome
      if (again === undefined || retries >= this.#options.maxRetries) {
        this.#options.observe({
          message: MESSAGES.get(error.status) ?? 'embedding provider failed',
          attrs: { retries, reason: String(error.cause) },
        })
        throw error
      }
      await sleep(Math.min(Math.max(again * 1000, FIRST_WAIT_MS * 2 ** retries), LONGEST_WAIT_MS))
    }
  }

  /** The vectors, or the error and, if it can be retried, after how many seconds. */
  async #tryOnce(texts: readonly string[]): Promise<number[][] | { error: AppError; again?: number }> {
    const { outgoing, dialect, timeout } = this.#options
    try {
      const answer = await requestVectors(outgoing, dialect, texts, timeout * 1000)
      const { status } = answer
      const cause = `answered ${status}`
      const again = retryAfterOf(answer.headers['retry-after'], Date.now()) ?? 0
      if (status === 429) return { error: overLimit(cause, again), again }
      if (status >= 500) return { error: failed(cause), again }
      if (status === 400 || status === 413 || status === 422) return { error: new RefusedText(cause) }
      if (status < 200 || status >= 300) return { error: failed(cause) }
      return readVectors(dialect, answer, texts.length) ?? { error: failed('answered something else than vectors') }
    } catch (error) {
      if (!(error instanceof OutgoingError)) throw error
      return { error: error.reason === 'timeout' ? timedOut() : failed(error.message), again: 0 }
    }
  }
}

const MESSAGES = new Map<number, ObservedMessage>([
  [429, 'embedding provider is over its limit'],
  [504, 'embedding provider timed out'],
])

const failed = (cause: string): AppError => new AppError('provider_failed', 'embedding provider failed', { cause })
const timedOut = (): AppError => new AppError('provider_timeout', 'embedding provider timed out', { cause: 'timeout' })
const overLimit = (cause: string, seconds: number): AppError =>
  new AppError('provider_rate_limited', 'embedding provider is over its limit', {
    cause,
    headers: { 'Retry-After': String(Math.max(1, seconds)) },
  })

/** Rate limits and rejected texts do not mean that the provider is down. */
const isFailure = (error: unknown): boolean => !hasStatus(error, 429) && !(error instanceof RefusedText)
