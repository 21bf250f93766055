import { hkdfSync } from 'node:crypto'
import { hmacSha256 } from '../../../core/secret.ts'

/** Upper bound of the number of passkeys. */
const MOST_PASSKEYS = 1e9
/** Random numbers, far more than are needed to reach MOST_PASSKEYS. */
const DRAWS = 64
/** The usual id length, for while there is no passkey to imitate. */
const USUAL_BYTES = 32

/**
 * A fake passkey for an address without one: an unused id with the length of an existing one. It depends only on the
 * address, a key of the server, and the existing passkeys.
 */
export class Decoy {
  /**
   * Numbers of passkeys, in order of enrolment, whose length it may copy; the latest one that exists is used.
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
