import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'
import type { OnceAnswer } from '../../core/once.ts'

const CIPHER = 'aes-256-gcm'
const IV_BYTES = 12
const TAG_BYTES = 16
/** Longer answers are not kept, only that they were given. */
const MAX_BYTES = 1024 * 1024

type StoredAnswer = { status: number; rights: readonly string[]; body: Buffer }

export const digestOf = (text: string): Buffer => createHash('sha256').update(text).digest()

/** The id of an answer is a digest of the same secret, of which the derived key tells nothing. */
const keyOf = (secret: string, id: Buffer): Buffer =>
  Buffer.from(hkdfSync('sha256', secret, id, 'answer of an idempotency key', 32))

/** Encrypts with a key that only the client's Idempotency-Key makes; null if the body is too large. */
export function sealAnswer(secret: string, id: Buffer, rights: readonly string[], answer: OnceAnswer): Buffer | null {
  const { status, body } = answer
  const pieces = typeof body === 'string' ? [Buffer.from(body)] : Buffer.isBuffer(body) ? [body] : body
  if (pieces.reduce((sum, { length }) => sum + length, 0) > MAX_BYTES) return null
  const head = Buffer.from(JSON.stringify({ status, rights }))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(head.length)
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv(CIPHER, keyOf(secret, id), iv).setAAD(id)
  const sealed = [length, head, ...pieces].map((piece) => cipher.update(piece))
  return Buffer.concat([iv, ...sealed, cipher.final(), cipher.getAuthTag()])
}

/** Undefined if it was changed, which no key undoes. */
export function openAnswer(secret: string, id: Buffer, sealed: Buffer): StoredAnswer | undefined {
  try {
    const decipher = createDecipheriv(CIPHER, keyOf(secret, id), sealed.subarray(0, IV_BYTES), {
      authTagLength: TAG_BYTES,
    })
    decipher.setAAD(id).setAuthTag(sealed.subarray(-TAG_BYTES))
    const plain = Buffer.concat([decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()])
    const end = 4 + plain.readUInt32BE(0)
    const head = JSON.parse(plain.toString('utf8', 4, end)) as Omit<StoredAnswer, 'body'>
    return { ...head, body: plain.subarray(end) }
  } catch {
    return undefined
  }
}
