import { AppError } from '../../core/errors.ts'
import { equalInConstantTime, hmacSha256 } from '../../core/secret.ts'

/** What a signature covers: these bytes of this object, and no others that have its name later. */
export type Signed = {
  bucket: string
  name: string
  id: string
  sha256: string
  /** What it lets do with an image; empty: nothing, it is the file as it is. */
  transform: string
}

/** Signed URLs for one object, with an expiry. Their key is separate and survives a rotation of the token keys. */
export class Signatures {
  readonly #key: Buffer
  readonly #now: () => number

  constructor(key: Buffer, now: () => number = Date.now) {
    this.#key = key
    this.#now = now
  }

  sign(object: Signed, seconds: number): { exp: string; sig: string } {
    const exp = String(Math.floor(this.#now() / 1000) + seconds)
    return { exp, sig: this.#signature(object, exp) }
  }

  /**
   * Seconds until the signature of a URL ends; undefined if it has none. Throws if it has a bad one, in public buckets too,
   * and if there is no object: the answer does not tell which names exist.
   */
  secondsLeft(object: Signed | undefined, query: Readonly<Record<string, string>>): number | undefined {
    const { exp, sig } = query
    if (sig === undefined) return undefined
    const left = exp !== undefined && /^\d{1,12}$/.test(exp) ? Number(exp) - this.#now() / 1000 : 0
    const isGood = object && exp !== undefined && equalInConstantTime(sig, this.#signature(object, exp)) && left > 0
    if (!isGood) throw new AppError('invalid_signed_url', 'invalid or expired signed URL')
    return Math.floor(left)
  }

  /** Only a name may have any character, so it comes last; no bucket has a question mark. */
  #signature({ bucket, name, id, sha256, transform }: Signed, exp: string): string {
    const wanted = transform === '' ? '' : `?${transform}:`
    return hmacSha256(this.#key, `${id}:${sha256}:${exp}:${wanted}${bucket}/${name}`).toString('base64url')
  }
}
