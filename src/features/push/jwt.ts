import { type KeyObject, sign } from 'node:crypto'

const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

/** A signed JWT (RFC 7519); ES256 signatures are the two numbers side by side (RFC 7518 §3.4). */
export function signedJwt(key: KeyObject, header: { alg: 'RS256' | 'ES256'; kid?: string }, claims: object): string {
  const input = `${part({ typ: 'JWT', ...header })}.${part(claims)}`
  const signature = sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' })
  return `${input}.${signature.toString('base64url')}`
}
