import { createHash } from 'node:crypto'

const START = 2 ** 16

/**
 * Texts that were there before, by 64 bits of their SHA-256: sixteen bytes each, so that the addresses of millions of users fit.
 * Two of ten million share their bits with a probability of one in a few hundred thousand.
 */
export class SeenTexts {
  #slots = new BigUint64Array(START)
  #count = 0

  /** Whether it is new. */
  add(text: string): boolean {
    if (this.#count * 2 >= this.#slots.length) this.#grow()
    const isNew = this.#put(this.#slots, createHash('sha256').update(text).digest().readBigUInt64LE() | 1n)
    if (isNew) this.#count++
    return isNew
  }

  #put(slots: BigUint64Array, bits: bigint): boolean {
    const mask = slots.length - 1
    for (let at = Number((bits >> 1n) & BigInt(mask)); ; at = (at + 1) & mask) {
      if (slots[at] === bits) return false
      if (slots[at] === 0n) {
        slots[at] = bits
        return true
      }
    }
  }

  #grow(): void {
    const larger = new BigUint64Array(this.#slots.length * 2)
    for (const bits of this.#slots) if (bits !== 0n) this.#put(larger, bits)
    this.#slots = larger
  }
}
