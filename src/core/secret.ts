import { createHash, createHmac, hkdfSync, randomBytes, randomInt, timingSafeEqual } from 'node:crypto'

export const randomHex = (bytes: number): string => randomBytes(bytes).toString('hex')
export const randomToken = (bytes = 32): string => randomBytes(bytes).toString('base64url')
/** A code for people to type. */
export const randomDigits = (length: number): string => String(randomInt(10 ** length)).padStart(length, '0')

/** The stored form of tokens; they are random, so a plain hash is enough. */
export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

export const hmacSha256 = (key: string | Buffer, message: string | Buffer): Buffer =>
  createHmac('sha256', key).update(message).digest()

/** One key per purpose, so that no token of one kind can pass as another. */
export const deriveKey = (root: string, salt: string, purpose: string): Buffer =>
  Buffer.from(hkdfSync('sha256', root, salt, purpose, 32))

export function equalInConstantTime(a: string, b: string): boolean {
  const [x, y] = [createHash('sha256').update(a).digest(), createHash('sha256').update(b).digest()]
  return timingSafeEqual(x, y)
}
