import { unavailable } from '../core/errors.ts'
import { addressSubject } from './wire/client-address.ts'

/**
 * What this process does at once of something that lasts as long as its client takes. One address may hold a share of the
 * places: a few slow clients must not keep everybody else out.
 */
export class AddressShares {
  readonly #all: number
  readonly #share: number
  readonly #bySubject = new Map<string, number>()
  #taken = 0

  constructor({ all, share }: { all: number; share: number }) {
    this.#all = all
    this.#share = share
  }

  async hold<T>(ip: string, work: () => Promise<T>): Promise<T> {
    const subject = addressSubject(ip)
    const mine = this.#bySubject.get(subject) ?? 0
    if (this.#taken >= this.#all || mine >= this.#share) throw unavailable('server busy')
    this.#taken++
    this.#bySubject.set(subject, mine + 1)
    try {
      return await work()
    } finally {
      this.#taken--
      const left = (this.#bySubject.get(subject) ?? 1) - 1
      if (left > 0) this.#bySubject.set(subject, left)
      else this.#bySubject.delete(subject)
    }
  }
}
