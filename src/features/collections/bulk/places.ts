import { unavailable } from '../../../core/errors.ts'

/** Exports and imports at once in this process: each has a connection to itself for as long as its client takes. */
const PLACES = 4
/** Of these, what one address may hold. */
const SHARE = 2

export class Places {
  readonly #byAddress = new Map<string, number>()
  #taken = 0

  async hold<T>(address: string, work: () => Promise<T>): Promise<T> {
    const mine = this.#byAddress.get(address) ?? 0
    if (this.#taken >= PLACES || mine >= SHARE) throw unavailable('server busy')
    this.#taken++
    this.#byAddress.set(address, mine + 1)
    try {
      return await work()
    } finally {
      this.#taken--
      const left = (this.#byAddress.get(address) ?? 1) - 1
      if (left > 0) this.#byAddress.set(address, left)
      else this.#byAddress.delete(address)
    }
  }
}
