import { hkdfSync } from 'node:crypto'
import { hmacSha256 } from '../../../core/secret.ts'

/** No server has more passkeys than this. */
const MOST_PASSKEYS = 1e9
/** Of random numbers, far more than it takes to get there. */
const DRAWS = 64
/** While there is no passkey nothing is to be hidden; most browsers on a desk make ids of this size. */
const USUAL_BYTES = 32

/**
 * The passkey of an address that has none: an id that no account has, as long as one that an account has. It depends on nothing but
 * the address, a key of the server, and which passkeys there are.
 */
export class Decoy {
  /**
   * The passkeys that may lend it their length, numbered in the order of their enrolment: the latest that is there does.
   * The numbers are the record times of a sequence of random numbers, and of `n` things each is the latest record with
   * the same probability. So lengths are as frequent among decoys as they are among first passkeys, yet a decoy changes only
   * when a record is enrolled: about ln(n) times in all, most of them without a change of length.
   */
  readonly models: readonly number[]
  readonly #seed: Buffer

  constructor(key: Buffer, email: string) {
    this.#seed = hmacSha256(key, email)
    const random = this.#bytes('models', DRAWS * 4)
    const models = [1]
    for (let i = 0; i < DRAWS; i++) {
      // In (0, 1]: the chance that none of the next n - last numbers is a record is last / n.
      const draw = (random.readUInt32BE(i * 4) + 1) / 2 ** 32
      const next = Math.floor((models.at(-1) ?? 1) / draw) + 1
      if (next > MOST_PASSKEYS) break
      models.push(next)
    }
    this.models = models
  }

  id(bytes: number | null): string {
    const length = bytes ?? USUAL_BYTES
    return this.#bytes(`id of ${length} bytes`, length).toString('base64url')
  }

  #bytes(purpose: string, length: number): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#seed, '', purpose, length))
  }
}
