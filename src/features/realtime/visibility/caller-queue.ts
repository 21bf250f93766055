import { type Clock, sleep } from '../../../core/clock.ts'
import { AppError, hasStatus, unavailable } from '../../../core/errors.ts'
import { KeyedMutex, Semaphore } from '../../../core/limits.ts'

/** Expensive questions that PostgreSQL answers at a time, and those that are expected to be cheap. */
const SLOTS = 2
const QUICK_SLOTS = 4
/** How long a question may take before its payer counts as slow, and how long one of a slow payer. */
export const QUICK_MS = 500
const SLOW_MS = 5_000
/** The part of one connection's time that the questions of one payer may take, with room for a burst. */
const ROOM_MS = 2_000
export const SHARES = { filters: 0.1, policies: 0.25, live: 0.25 } as const
/** The cost of a question that hit its time limit. */
const TIMED_OUT_MS = 2 * ROOM_MS
/** After an expensive question its payer rests for three times as long: its own events are late, no other's. */
const EXPENSIVE_MS = 50
const MAX_REST_MS = 1_000
const LOOK_MS = 250
const MAX_KNOWN = 10_000

const tooExpensive = (): AppError =>
  new AppError('filter_too_slow', 'filter takes too long', { headers: { 'Retry-After': '20' } })

/** `ms`: how many milliseconds PostgreSQL took. */
type Timed = { readonly ms: number }

/**
 * What PostgreSQL is asked for the sake of one caller is paid by that caller: one question at a time, within a budget of
 * PostgreSQL's time. The budget outlives the streams: a caller whose streams were closed for it and that comes back at
 * once finds it spent.
 */
export class CallerQueue {
  readonly #clock: Clock
  readonly #share: number
  readonly #slots = new Semaphore(SLOTS)
  readonly #quickSlots = new Semaphore(QUICK_SLOTS)
  readonly #payers = new KeyedMutex()
  readonly #spent = new Map<string, { ms: number; at: number }>()
  #stopped = false

  constructor(clock: Clock, share: number) {
    this.#clock = clock
    this.#share = share
  }

  /** Throws while the questions of this payer have taken too much time. */
  requireBudget(payer: string): void {
    if (this.#leftOver(payer) > ROOM_MS) throw tooExpensive()
  }

  /** Whether time has not paid yet for what this payer's questions took. */
  isSlow(payer: string): boolean {
    return this.#leftOver(payer) > 0
  }

  /** Without budget it is refused. */
  async run<T extends Timed>(payer: string, evaluate: () => Promise<T>): Promise<T> {
    return this.#payers.run(payer, async () => {
      this.requireBudget(payer)
      return this.#evaluate(payer, evaluate).catch((error: unknown) => {
        throw hasStatus(error, 504) ? tooExpensive() : error
      })
    })
  }

  /** Without budget it waits. A payer that is not known to be slow has a short try first, so that it waits for no slow one. */
  async ask<T extends Timed>(payer: string, evaluate: (timeoutMs: number) => Promise<T>): Promise<T> {
    return this.#payers.run(payer, async () => {
      const answer = this.isSlow(payer) ? undefined : await this.#tryQuickly(payer, evaluate)
      if (answer) return answer
      while (this.#leftOver(payer) > ROOM_MS) {
        if (this.#stopped) throw unavailable('server is shutting down', 1, 'shutting_down')
        await sleep(LOOK_MS)
      }
      return this.#evaluate(payer, () => evaluate(SLOW_MS))
    })
  }

  spend(payer: string, ms: number): void {
    if (this.#spent.size >= MAX_KNOWN) {
      for (const rested of this.#spent.keys()) if (this.#leftOver(rested) === 0) this.#spent.delete(rested)
    }
    this.#spent.set(payer, { ms: this.#leftOver(payer) + ms, at: this.#clock.now() })
  }

  stop(): void {
    this.#stopped = true
  }

  async #tryQuickly<T extends Timed>(
    payer: string,
    evaluate: (timeoutMs: number) => Promise<T>,
  ): Promise<T | undefined> {
    try {
      const answer = await this.#quickSlots.run(() => evaluate(QUICK_MS))
      if (answer.ms >= EXPENSIVE_MS) this.spend(payer, answer.ms)
      return answer
    } catch (error) {
      if (!hasStatus(error, 504)) throw error
      this.spend(payer, QUICK_MS)
      return undefined
    }
  }

  async #evaluate<T extends Timed>(payer: string, evaluate: () => Promise<T>): Promise<T> {
    const answer = await this.#slots.run(evaluate).catch((error: unknown) => {
      if (hasStatus(error, 504)) this.spend(payer, TIMED_OUT_MS)
      throw error
    })
    this.spend(payer, answer.ms)
    if (answer.ms >= EXPENSIVE_MS) await sleep(Math.min(3 * answer.ms, MAX_REST_MS))
    return answer
  }

  /** Milliseconds of earlier questions that the passing of time has not paid for. */
  #leftOver(payer: string): number {
    const spent = this.#spent.get(payer)
    if (!spent) return 0
    return Math.max(0, spent.ms - (this.#clock.now() - spent.at) * this.#share)
  }
}
