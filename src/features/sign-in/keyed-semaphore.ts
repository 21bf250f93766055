import { serverBusy } from '../../core/errors.ts'
import { Semaphore } from '../../core/limits.ts'

/**
 * At most `max` pieces of work at a time for each key; the others wait, and beyond `maxWaiting` they are refused. To count
 * failures after the fact would let any number of parallel guesses through before the first one is counted.
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
