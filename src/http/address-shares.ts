import { serverBusy } from '../core/errors.ts'
import { KeyedLimit } from '../core/limits.ts'
import { addressSubject } from './wire/client-address.ts'

/** Limits work whose duration the client decides: one address may take only a share of the slots. */
export class AddressShares {
  readonly #limit: KeyedLimit

  constructor({ all, share }: { all: number; share: number }) {
    this.#limit = new KeyedLimit({ total: all, perKey: share })
  }

  async run<T>(ip: string, work: () => Promise<T>): Promise<T> {
    const release = this.#limit.tryAcquire(addressSubject(ip))
    if (!release) throw serverBusy()
    try {
      return await work()
    } finally {
      release()
    }
  }
}
