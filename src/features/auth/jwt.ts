import { timingSafeEqual } from 'node:crypto'
import { hmacSha256 } from '../../core/secret.ts'

export type TokenKind = 'access' | 'mfa'
export type Keys = Readonly<Record<TokenKind, Buffer>>

export type AccessClaims = {
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
}
export type MfaClaims = Omit<AccessClaims, 'sid' | 'mfa_pending'> & { mfa_pending: true }
export type Claims = AccessClaims | MfaClaims

const MAX_BYTES = 16 * 1024

const encodeJson = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

// RFC 8725: one algorithm, an explicit type and a key of its own per purpose. Headers are
// compared byte for byte, so there is no code that reads `none`, other algorithms, crit, jwk, jku or x5u.
const headers: Readonly<Record<TokenKind, string>> = {
  access: encodeJson({ alg: 'HS256', typ: 'JWT' }),
  mfa: encodeJson({ alg: 'HS256', typ: 'mfa+jwt' }),
}

export function signJwt(kind: TokenKind, claims: Claims, keys: Keys): string {
  const signed = `${headers[kind]}.${encodeJson(claims)}`
  return `${signed}.${hmacSha256(keys[kind], signed).toString('base64url')}`
}

/** The claims of a token that this server signed and that is not expired; undefined for everything else. */
export function readJwt(token: string, keys: Keys, nowSeconds: number): Claims | undefined {
  if (token.length > MAX_BYTES) return undefined
  const [header, payload, signature, ...more] = token.split('.')
  if (payload === undefined || signature === undefined || more.length > 0) return undefined
  const kind = header === headers.access ? 'access' : header === headers.mfa ? 'mfa' : undefined
  if (kind === undefined || !isSignature(signature, `${header}.${payload}`, keys[kind])) return undefined
  // Signed by this server, so the shape needs no check.
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as Claims
  return nowSeconds < claims.exp && claims.mfa_pending === (kind === 'mfa') ? claims : undefined
}

function isSignature(signature: string, signed: string, key: Buffer): boolean {
  // Compared as text: base64url has several encodings of the same bytes, and only ours is accepted.
  const [got, want] = [Buffer.from(signature), Buffer.from(hmacSha256(key, signed).toString('base64url'))]
  return got.length === want.length && timingSafeEqual(got, want)
}
