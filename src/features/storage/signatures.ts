import { AppError } from '../../core/errors.ts'
import { equalInConstantTime, hmacSha256 } from '../../core/secret.ts'

/** Links that open one object until a time. The key is derived for this alone and outlives a rotation of token keys. */
export class Signatures {
  readonly #key: Buffer
  readonly #now: () => number

  constructor(key: Buffer, now: () => number = Date.now) {
    this.#key = key
    this.#now = now
  }

  sign(bucket: string, name: string, seconds: number): { exp: string; sig: string } {
    const exp = String(Math.floor(this.#now() / 1000) + seconds)
    return { exp, sig: this.#signature(bucket, name, exp) }
  }

  /** False when the URL carries no signature; a bad one is refused wherever it stands. */
  isSigned(bucket: string, name: string, query: Readonly<Record<string, string>>): boolean {
    const { exp, sig } = query
    if (sig === undefined) return false
    const isGood =
      exp !== undefined &&
      /^\d{1,12}$/.test(exp) &&
      equalInConstantTime(sig, this.#signature(bucket, name, exp)) &&
      Number(exp) > this.#now() / 1000
    if (!isGood) throw new AppError('invalid_signed_url', 'invalid or expired signed URL')
    return true
  }

  #signature(bucket: string, name: string, exp: string): string {
    return hmacSha256(this.#key, `${bucket}/${name}:${exp}`).toString('base64url')
  }
}
