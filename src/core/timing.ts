import { AsyncLocalStorage } from 'node:async_hooks'

/** Measures the stages of one request, for the Server-Timing header. */
export class Timing {
  readonly #now: () => number
  readonly #startedAt: number
  readonly #stages: [name: string, ms: number][] = []
  #markedAt: number
  #waiting = 0
  #waitingSince = 0
  #waitedMs = 0

  constructor(startedAt: number, now: () => number = () => performance.now()) {
    this.#now = now
    this.#startedAt = startedAt
    this.#markedAt = startedAt
  }

  /** Ends a stage; the next one starts now. */
  mark(stage: string): void {
    const now = this.#now()
    this.#stages.push([stage, now - this.#markedAt])
    this.#markedAt = now
  }

  /** Starts a wait for PostgreSQL and returns the function that ends it. Concurrent statements count once. */
  startDbWait(): () => void {
    if (this.#waiting++ === 0) this.#waitingSince = this.#now()
    return () => {
      if (--this.#waiting === 0) this.#waitedMs += this.#now() - this.#waitingSince
    }
  }

  /** The value of Server-Timing (W3C); `db` is part of the other stages. */
  toString(): string {
    const total = this.#now() - this.#startedAt
    return [...this.#stages, ['db', this.#waitedMs] as const, ['total', total] as const]
      .map(([name, ms]) => `${name};dur=${ms.toFixed(3)}`)
      .join(', ')
  }
}

const current = new AsyncLocalStorage<Timing>()
let measured = 0

/** Counts the statements of `work`. AsyncLocalStorage slows every request, so it is disabled after the last measurement. */
export async function measure<T>(timing: Timing, work: () => T | Promise<T>): Promise<T> {
  measured++
  try {
    return await current.run(timing, work)
  } finally {
    if (--measured === 0) current.disable()
  }
}

/** Counts the time until `answer` settles as database time, if the current request is measured. */
export function countDbWait<T>(answer: Promise<T>): Promise<T> {
  const timing = measured === 0 ? undefined : current.getStore()
  return timing ? answer.finally(timing.startDbWait()) : answer
}
