import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { AppError } from './errors.ts'

const VERSION = 'v1'
const IV_BYTES = 12
const TAG_BYTES = 16

/** Tells keys apart without revealing them. */
const idOf = (key: Buffer): string => createHash('sha256').update('key id').update(key).digest('hex').slice(0, 8)

/** Says what the operator can do, because the caller cannot fix it. */
const unreadable = (cause?: unknown): AppError =>
  new AppError('secret_unreadable', 'a stored secret cannot be read: name its key in auth.previous_encryption_keys', {
    headers: { 'Retry-After': '60' },
    cause,
  })

/**
 * AES-256-GCM for secrets at rest. A sealed text names its key, so old keys keep working until it is resealed. `context`
 * binds the secret to its owner: a stored secret cannot be moved to another row.
 */
export class SecretBox {
  readonly #keys: ReadonlyMap<string, Buffer>
  readonly #current: Buffer
  /** Prefix of every text sealed with the current key. */
  readonly prefix: string

  constructor(current: Buffer, previous: readonly Buffer[] = []) {
    this.#current = current
    this.#keys = new Map([...previous, current].map((key) => [idOf(key), key]))
    this.prefix = `${VERSION}.${idOf(current)}.`
  }

  seal(plain: string, context: string): string {
    const iv = randomBytes(IV_BYTES)
    const cipher = createCipheriv('aes-256-gcm', this.#current, iv).setAAD(Buffer.from(context))
    const sealed = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()])
    return this.prefix + Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url')
  }

  /** Throws when no key fits, or the text was changed. */
  open(sealed: string, context: string): string {
    const [version, id = '', text = ''] = sealed.split('.')
    const key = version === VERSION ? this.#keys.get(id) : undefined
    if (!key) throw unreadable()
    const bytes = Buffer.from(text, 'base64url')
    const [iv, tag] = [bytes.subarray(0, IV_BYTES), bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES)]
    try {
      const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES })
        .setAAD(Buffer.from(context))
        .setAuthTag(tag)
      return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]).toString('utf8')
    } catch (error) {
      throw unreadable(error)
    }
  }
}
