import { badRequest } from '../core/errors.ts'
import * as t from '../core/json-type.ts'
import { isStorableJson } from '../core/storable.ts'
import { isUuid } from '../core/uuid.ts'

/** As whom an administrator looks at the data. */
export type Subject =
  | { readonly user_id: string }
  | { readonly key_id: string }
  | { readonly anonymous: true }
  | { readonly claims: SubjectClaims }

/** Further claims are for svc.claims(). */
export type SubjectClaims = Readonly<Record<string, unknown>> & {
  readonly sub: string
  readonly email?: string
  readonly aal?: 'aal1' | 'aal2'
}

export const subjectFields = {
  user_id: t.optional(t.uuid()),
  key_id: t.optional(t.uuid({ description: 'of an API key' })),
  anonymous: t.optional(t.boolean()),
  claims: t.optional(
    t.record(t.any(), { description: '{sub, email?, aal?, …}; further ones are read by svc.claims()' }),
  ),
}

type Given = { user_id?: string; key_id?: string; anonymous?: boolean; claims?: Record<string, unknown> }

const MAX_CLAIMS = 4_096

/** 400 unless exactly one of the four is given. */
export function subjectOf({ user_id, key_id, anonymous, claims }: Given): Subject {
  const given = [user_id, key_id, anonymous, claims].filter((one) => one !== undefined)
  if (given.length !== 1 || anonymous === false)
    throw badRequest('exactly one of user_id, key_id, anonymous and claims is required')
  if (user_id !== undefined) return { user_id: requireId(user_id, 'user_id') }
  if (key_id !== undefined) return { key_id: requireId(key_id, 'key_id') }
  return claims === undefined ? { anonymous: true } : { claims: checkedClaims(claims) }
}

export const subjectName = (subject: Subject): string => {
  if ('user_id' in subject) return subject.user_id
  if ('key_id' in subject) return subject.key_id
  return 'claims' in subject ? subject.claims.sub : 'anonymous'
}

function requireId(id: string, field: string): string {
  if (!isUuid(id)) throw badRequest(`invalid ${field} format`)
  return id
}

function checkedClaims(claims: Record<string, unknown>): SubjectClaims {
  const { sub, email, aal } = claims
  if (typeof sub !== 'string' || !isUuid(sub)) throw badRequest('claims.sub must be a user id')
  if (email !== undefined && (typeof email !== 'string' || email.includes('\0')))
    throw badRequest('claims.email must be a text')
  if (aal !== undefined && aal !== 'aal1' && aal !== 'aal2') throw badRequest('claims.aal must be aal1 or aal2')
  // svc.claims() compares it with the user's organisations.
  if (claims['org'] !== undefined && !(typeof claims['org'] === 'string' && isUuid(claims['org'])))
    throw badRequest('claims.org must be an organization id')
  const text = JSON.stringify(claims)
  if (text.length > MAX_CLAIMS) throw badRequest(`claims must not exceed ${MAX_CLAIMS} characters`)
  if (!isStorableJson(text)) throw badRequest('claims must not contain NUL or half a surrogate pair')
  return claims as SubjectClaims
}
