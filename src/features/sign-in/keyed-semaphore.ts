import { serverBusy } from '../../core/errors.ts'
import { Semaphore } from '../../core/limits.ts'

/**
 * At most `max` tasks at a time for each key; up to `maxWaiting` more wait, the rest are refused. Without it any number
 * of parallel guesses would pass before the first failure is counted.
 */
export class KeyedSemaphore {
  readonly #max: number
  readonly #maxWaiting: number
  readonly #semaphores = new Map<string, Semaphore>()

  constructor(max: number, maxWaiting: number) {
    this.#max = max
    this.#maxWaiting = maxWaiting
  }

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const semaphore = this.#semaphores.get(key) ?? new Semaphore(this.#max)
    if (semaphore.isFull && semaphore.waiting >= this.#maxWaiting) throw serverBusy()
    this.#semaphores.set(key, semaphore)
    try {
      return await semaphore.run(work)
    } finally {
      if (semaphore.inUse === 0) this.#semaphores.delete(key)
    }
  }
}
