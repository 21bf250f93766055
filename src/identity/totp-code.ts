import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

// RFC 6238 with what every authenticator app supports: SHA-1, six digits, thirty seconds.
const PERIOD = 30
const DIGITS = 6
/** Steps either side of the current one, to tolerate clock differences and slow typing. */
const WINDOW = 1
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** As long as the hash, as RFC 4226 §4 recommends. */
export const newSecret = (): Buffer => randomBytes(20)

export const stepAt = (epochSeconds: number): number => Math.floor(epochSeconds / PERIOD)

/** RFC 4226 §5.3. */
export function codeOf(secret: Buffer, step: number): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const mac = createHmac('sha1', secret).update(counter).digest()
  const offset = mac.readUInt8(mac.length - 1) & 0x0f
  const number = mac.readUInt32BE(offset) & 0x7fff_ffff
  return String(number % 10 ** DIGITS).padStart(DIGITS, '0')
}

/** The newest step around `current` that has this code. */
export function timeStep(secret: Buffer, code: string, current: number): number | undefined {
  const given = Buffer.from(code)
  const matches = (step: number): boolean => {
    const expected = Buffer.from(codeOf(secret, step))
    return given.length === expected.length && timingSafeEqual(given, expected)
  }
  const steps = Array.from({ length: 2 * WINDOW + 1 }, (_, i) => current - WINDOW + i)
  return steps.filter(matches).at(-1)
}

/** RFC 4648 §6, without padding, as authenticator apps want it. */
export function base32(bytes: Buffer): string {
  let [text, bits, left] = ['', 0, 0]
  for (const byte of bytes) {
    bits = (bits << 8) | byte
    for (left += 8; left >= 5; left -= 5) text += ALPHABET[(bits >>> (left - 5)) & 31]
    bits &= (1 << left) - 1
  }
  return left > 0 ? text + ALPHABET[(bits << (5 - left)) & 31] : text
}

/** Content of the QR code. */
export function otpauthUri(appName: string, account: string, secret: Buffer): string {
  const issuer = encodeURIComponent(appName)
  // `@` is allowed in a path and keeps the address readable.
  const label = `${issuer}:${encodeURIComponent(account).replaceAll('%40', '@')}`
  return `otpauth://totp/${label}?secret=${base32(secret)}&issuer=${issuer}&algorithm=SHA1&digits=${DIGITS}&period=${PERIOD}`
}
