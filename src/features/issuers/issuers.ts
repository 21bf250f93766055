import { createHash } from 'node:crypto'
import type { JWTPayload } from 'jose'
import { isEmail, normaliseEmail } from '../../core/contact/email-address.ts'
import { parseKeepingDigits } from '../../core/json-digits.ts'
import { isStorableJson, isStorableText } from '../../core/storable.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { IssuerKeys } from './keys.ts'

export type IssuerConfig = {
  readonly issuer: string
  readonly audience: readonly string[]
  readonly jwks_url: string
  readonly algorithms: readonly string[]
  readonly claims: Readonly<Record<string, string>>
  readonly provision: boolean
  /** Seconds. */
  readonly max_token_age: number
  readonly acr_aal2: readonly string[]
}

/** What a good token of another issuer says. */
export type ForeignIdentity = {
  issuer: string
  subject: string
  /** Empty unless the issuer says that it is verified. */
  email: string
  aal: 'aal1' | 'aal2'
  /** As JSON, without what this server says of a caller. */
  claims: string
  /** Unix seconds. */
  expiresAt: number
  provision: boolean
}

const MAX_SUBJECT = 255
const MAX_CLAIMS = 4_096
const CLOCK_SECONDS = 5
/** What svc.claims() has of this server. */
const OURS = new Set(['sub', 'email', 'aal', 'org', 'metadata', 'app_metadata'])

/** Undefined for a token of no configured issuer, and for one that is not good. */
export type ReadForeignToken = (token: string, nowMs: number) => Promise<ForeignIdentity | undefined>

export function createIssuers(configured: readonly IssuerConfig[], outgoing: Outgoing): ReadForeignToken {
  const issuers = new Map(
    configured.map((config) => [config.issuer, { config, keys: new IssuerKeys(outgoing, config) }]),
  )
  return async (token, nowMs) => {
    const found = issuers.get(issuerOf(token) ?? '')
    if (!found) return undefined
    const { config, keys } = found
    const { jwtVerify } = await import('jose')
    try {
      const { payload } = await jwtVerify(
        token,
        async ({ kid, alg }) => {
          const key = await keys.find(kid, alg)
          if (!key) throw new Error('unknown key')
          return key
        },
        {
          issuer: config.issuer,
          audience: [...config.audience],
          algorithms: [...config.algorithms],
          requiredClaims: ['exp', 'iss', 'aud'],
          // Requires `iat` too, and that it has passed.
          maxTokenAge: config.max_token_age,
          clockTolerance: CLOCK_SECONDS,
          currentDate: new Date(nowMs),
        },
      )
      return identityOf(payload, claimsIn(token), config, nowMs / 1000)
    } catch {
      // Whatever is wrong with a stranger's token, it is no token.
      return undefined
    }
  }
}

type Claims = Readonly<Record<string, unknown>>

/** As the token says, before it is believed; numbers that a double does not hold are texts of their digits. */
function claimsIn(token: string): Claims {
  const [, payload = '', , ...more] = token.split('.')
  if (more.length > 0) return {}
  return Object(parseKeepingDigits(Buffer.from(payload, 'base64url').toString('utf8'))) as Claims
}

function issuerOf(token: string): string | undefined {
  try {
    const { iss } = claimsIn(token)
    return typeof iss === 'string' ? iss : undefined
  } catch {
    return undefined
  }
}

function identityOf(payload: JWTPayload, told: Claims, config: IssuerConfig, now: number): ForeignIdentity | undefined {
  const { id = 'sub', email: addressClaim = 'email' } = config.claims
  const subject = payload[id]
  if (typeof subject !== 'string' || subject === '' || subject.length > MAX_SUBJECT || !isStorableText(subject)) {
    return undefined
  }
  const expiresAt = Math.min(payload.exp ?? 0, (payload.iat ?? 0) + config.max_token_age)
  if (expiresAt <= now) return undefined
  const address = payload[addressClaim]
  const email = typeof address === 'string' ? normaliseEmail(address) : ''
  return {
    issuer: config.issuer,
    subject,
    email: payload['email_verified'] === true && isEmail(email) ? email : '',
    aal: config.acr_aal2.includes(String(payload['acr'] ?? '')) ? 'aal2' : 'aal1',
    claims: claimsOf(told, config),
    expiresAt,
    provision: config.provision,
  }
}

/** `role` is where the operator says, and data like the rest: it chooses no role of the database. */
function claimsOf(told: Claims, { claims: { role } }: IssuerConfig): string {
  const given = role === undefined ? told : { ...told, role: told[role] }
  const kept = Object.fromEntries(Object.entries(given).filter(([name]) => !OURS.has(name)))
  const text = JSON.stringify(kept)
  const { iss, aud } = told
  return Buffer.byteLength(text) <= MAX_CLAIMS && isStorableJson(text) ? text : JSON.stringify({ iss, aud })
}

/** By which revocations name the bearers of an identity. */
export const keyIdOf = ({ issuer, subject }: Pick<ForeignIdentity, 'issuer' | 'subject'>): string =>
  JSON.stringify([issuer, subject])

/** The namespace of URLs, RFC 9562, 6.6. */
const URL_NAMESPACE = Buffer.from('6ba7b8119dad11d180b400c04fd430c8', 'hex')

/** The id of a person without an account here: a UUID, version 5, of issuer and subject. */
export function idOfForeigner({ issuer, subject }: Pick<ForeignIdentity, 'issuer' | 'subject'>): string {
  const hash = createHash('sha1').update(URL_NAMESPACE).update(keyIdOf({ issuer, subject })).digest()
  hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x50
  hash[8] = ((hash[8] ?? 0) & 0x3f) | 0x80
  return hash.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
