import { getOrCreate } from '../../core/get-or-create.ts'
import { Semaphore, type WaitOptions } from '../../core/limits.ts'

/** Of the few connections that agents have, one user's take at most so many. */
const PER_USER = 2

/** Calls of one user wait for one another, so that they do not keep those of others waiting. */
export class Turns {
  readonly #users = new Map<string, Semaphore>()

  async run<T>(userId: string, work: () => Promise<T>, wait: WaitOptions): Promise<T> {
    const turn = getOrCreate(this.#users, userId, () => new Semaphore(PER_USER))
    try {
      return await turn.run(work, wait)
    } finally {
      if (turn.inUse === 0 && turn.waiting === 0) this.#users.delete(userId)
    }
  }
}
