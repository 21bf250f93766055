import { AppError } from '../../core/errors.ts'
import { equalInConstantTime, hmacSha256 } from '../../core/secret.ts'

/** Signed URLs for one object, with an expiry. Their key is separate and survives a rotation of the token keys. */
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

  /** False if the URL has no signature; throws if it has a bad one, in public buckets too. */
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
