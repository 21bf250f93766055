import { createPublicKey, generateKeyPairSync, type JsonWebKey } from 'node:crypto'

/** Offered COSE algorithms, which cover all authenticators: EdDSA, ES256, RS256. */
export const ALGORITHMS: readonly number[] = [-8, -7, -257]

// RFC 9052 §7, RFC 9053 §7, RFC 8230 §4.
const [KTY, ALG] = [1, 3]
const [OKP, EC2, RSA] = [1, 2, 3]
const [ED25519, P256] = [6, 1]
/** Shorter keys can be factored; longer ones waste CPU time. */
const RSA_BYTES = { min: 256, max: 512 }

/** Throws unless a COSE_Key is a complete, strong key of an offered algorithm. */
export function assertSoundKey(key: ReadonlyMap<number, unknown>): void {
  createPublicKey({ key: jwkOf(key), format: 'jwk' })
}

function jwkOf(key: ReadonlyMap<number, unknown>): JsonWebKey {
  const kind = `${key.get(KTY)} ${key.get(ALG)}`
  if (kind === `${OKP} -8` && key.get(-1) === ED25519) return { kty: 'OKP', crv: 'Ed25519', x: text(key.get(-2), 32) }
  if (kind === `${EC2} -7` && key.get(-1) === P256) {
    return { kty: 'EC', crv: 'P-256', x: text(key.get(-2), 32), y: text(key.get(-3), 32) }
  }
  if (kind === `${RSA} -257`) return { kty: 'RSA', n: modulus(key.get(-1)), e: text(key.get(-2)) }
  throw new Error('the key is of no algorithm that was offered')
}

function text(bytes: unknown, length?: number): string {
  if (!(bytes instanceof Uint8Array) || (length !== undefined && bytes.length !== length)) {
    throw new Error('the key lacks a part')
  }
  return Buffer.from(bytes).toString('base64url')
}

function modulus(bytes: unknown): string {
  const isSound =
    bytes instanceof Uint8Array &&
    bytes.length >= RSA_BYTES.min &&
    bytes.length <= RSA_BYTES.max &&
    (bytes[0] ?? 0) >= 0x80
  if (!isSound) throw new Error('the modulus of the key is too short or too long')
  return text(bytes)
}

/** A random COSE_Key, to verify decoys in the same time as real passkeys. */
export function makeDecoyKey(): string {
  const { x = '', y = '' } = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ format: 'jwk' })
  const part = (bytes: string) => [Buffer.from('5820', 'hex'), Buffer.from(bytes, 'base64url')]
  const key = [Buffer.from('a5010203262001' + '21', 'hex'), ...part(x), Buffer.from('22', 'hex'), ...part(y)]
  return Buffer.concat(key).toString('base64url')
}
