import { timingSafeEqual, verify } from 'node:crypto'
import { hmacSha256 } from '../../core/secret.ts'
import type { SigningKey } from './signing-keys.ts'

export type TokenKind = 'access' | 'mfa'

/** When tokens of a key may have been signed, in milliseconds. */
type Period = { activeFrom: number; retiredAt: number | null }

export type Keys = {
  /** HS256. */
  readonly access: Buffer
  readonly mfa: Buffer
  /** When access tokens were signed with HS256. */
  readonly hs256: readonly Period[]
  /** By the header of their tokens. */
  readonly published: ReadonlyMap<string, SigningKey>
  /** Milliseconds for which the tokens of a retired key are good. */
  readonly lifetimeMs: number
}

export type AccessClaims = {
  /** For others who verify it; this server knows its tokens by their signature. */
  iss?: string
  aud?: string
  sub: string
  iat: number
  exp: number
  jti: string
  email: string
  sid: string
  aal: 'aal1' | 'aal2'
  amr: readonly string[]
  is_anonymous: boolean
  /** The active organisation. */
  org?: string
  mfa_pending: false
  /** What the hook `token_claims` added. */
  [more: string]: unknown
}
export type MfaClaims = Pick<AccessClaims, 'sub' | 'iat' | 'exp' | 'jti' | 'email' | 'aal' | 'amr' | 'is_anonymous'> & {
  mfa_pending: true
}
export type Claims = AccessClaims | MfaClaims

const MAX_BYTES = 16 * 1024
/** Clocks of processes differ, and a token is signed a moment after its key was chosen. */
const LEEWAY_MS = 5_000

export const encodeJson = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

// RFC 8725: an explicit type and a key of its own per purpose. Headers are compared byte for byte, so there is no code
// that reads `none`, other algorithms, crit, jwk, jku or x5u.
const headers: Readonly<Record<TokenKind, string>> = {
  access: encodeJson({ alg: 'HS256', typ: 'JWT' }),
  mfa: encodeJson({ alg: 'HS256', typ: 'mfa+jwt' }),
}

/** The header of access tokens (RFC 9068) that a key signs. */
export const accessHeader = ({ algorithm: alg, kid }: Pick<SigningKey, 'algorithm' | 'kid'>): string =>
  encodeJson({ alg, typ: 'at+jwt', kid })

/** Access tokens are signed with the newest active key, others with a secret that only this service has. */
export function signJwt(kind: TokenKind, claims: Claims, keys: Keys): string {
  const newest = kind === 'access' ? newestOf(keys, claims.iat * 1000) : undefined
  if (newest) {
    const [header, key] = newest
    const signed = `${header}.${encodeJson(claims)}`
    return `${signed}.${key.sign(signed).toString('base64url')}`
  }
  const signed = `${headers[kind]}.${encodeJson(claims)}`
  return `${signed}.${hmacSha256(keys[kind], signed).toString('base64url')}`
}

/** The key that signs now, by its header; undefined while that is HS256. */
export function newestOf({ published, hs256 }: Keys, nowMs: number): [string, SigningKey] | undefined {
  const isActive = ({ activeFrom, retiredAt }: Period): boolean =>
    activeFrom < nowMs + 1000 && (retiredAt === null || nowMs + 1000 <= retiredAt)
  const active = [...published].filter(([, key]) => isActive(key))
  // While a key of the other kind is on its way, HS256 goes on.
  return active[0] ?? (hs256.some(isActive) ? undefined : [...published][0])
}

/** The claims of a token that this server signed and that is not expired; undefined for everything else. */
export function readJwt(token: string, keys: Keys, nowSeconds: number): Claims | undefined {
  if (token.length > MAX_BYTES) return undefined
  const [header = '', payload, signature, ...more] = token.split('.')
  if (payload === undefined || signature === undefined || more.length > 0) return undefined
  const key = keys.published.get(header)
  const kind = key || header === headers.access ? 'access' : header === headers.mfa ? 'mfa' : undefined
  if (kind === undefined) return undefined
  const signed = `${header}.${payload}`
  if (!(key ? isSigned(signature, signed, key) : isSignature(signature, signed, keys[kind]))) return undefined
  // Signed by this server, so the shape needs no check.
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as Claims
  if (kind === 'access' && !(key ? [key] : keys.hs256).some((period) => isOf(period, claims, keys, nowSeconds)))
    return undefined
  return nowSeconds < claims.exp && claims.mfa_pending === (kind === 'mfa') ? claims : undefined
}

/** Whether it looks like an access token of this service with a key that is not known yet. */
export function isOfUnknownKey(token: string, { published }: Keys): boolean {
  const header = token.slice(0, token.indexOf('.'))
  return !published.has(header) && OUR_HEADER.test(Buffer.from(header, 'base64url').toString('latin1'))
}

const OUR_HEADER = /^\{"alg":"(ES256|EdDSA)","typ":"at\+jwt","kid":"[0-9a-f]{16}"\}$/

/** Whether a token was signed before its key was retired, which is at most the life of a token ago. */
const isOf = ({ retiredAt }: Period, { iat }: Claims, { lifetimeMs }: Keys, nowSeconds: number): boolean =>
  retiredAt === null || (iat * 1000 <= retiredAt + LEEWAY_MS && nowSeconds * 1000 < retiredAt + lifetimeMs + LEEWAY_MS)

function isSignature(signature: string, signed: string, key: Buffer): boolean {
  // Compared as text: base64url has several encodings of the same bytes, and only ours is accepted.
  const [got, want] = [Buffer.from(signature), Buffer.from(hmacSha256(key, signed).toString('base64url'))]
  return got.length === want.length && timingSafeEqual(got, want)
}

export function isSigned(signature: string, signed: string, { algorithm, publicKey }: SigningKey): boolean {
  const bytes = Buffer.from(signature, 'base64url')
  if (bytes.length !== 64 || bytes.toString('base64url') !== signature) return false
  return algorithm === 'ES256'
    ? verify('sha256', Buffer.from(signed), { key: publicKey, dsaEncoding: 'ieee-p1363' }, bytes)
    : verify(null, Buffer.from(signed), publicKey, bytes)
}
