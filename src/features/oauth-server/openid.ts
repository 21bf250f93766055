import { hasScope } from '../../core/scope.ts'
import { type Sql, sql } from '../../db/sql.ts'

/** OpenID Connect Core, section 5.1: the claims of `profile` that users may say of themselves in their metadata. */
const PROFILE_CLAIMS = [
  'name',
  'given_name',
  'family_name',
  'middle_name',
  'nickname',
  'preferred_username',
  'profile',
  'picture',
  'website',
  'gender',
  'birthdate',
  'zoneinfo',
  'locale',
] as const
/** Longer ones are left out: ID tokens travel in headers and addresses. */
const MAX_CLAIM = 1000

export const CLAIMS_SUPPORTED: readonly string[] = [
  ...['iss', 'sub', 'aud', 'exp', 'iat', 'auth_time', 'nonce', 'acr', 'amr', 'sid', 'email', 'email_verified'],
  ...PROFILE_CLAIMS,
  'updated_at',
]

/** How and when a user signed in, as ID tokens say it. */
export type SignInFacts = {
  /** Null: the session is not the client's, as of a device that another one approved. */
  readonly sessionId: string | null
  /** Unix seconds. */
  readonly authTime: number
  readonly aal: 'aal1' | 'aal2'
  readonly amr: readonly string[]
}

type UserClaims = {
  email: string | null
  email_verified: boolean
  updated_at: number
  profile: Readonly<Record<string, string>>
}

/** What the scopes `email` and `profile` stand for, as JSON. */
export const userClaims = (userId: string): Sql => sql`
  select json_build_object('email', u.email, 'email_verified', u.email_verified_at is not null,
    'updated_at', floor(extract(epoch from u.updated_at)),
    'profile', (select coalesce(json_object_agg(m.key, m.value), '{}') from jsonb_each(u.metadata) m
      where m.key = any(${PROFILE_CLAIMS}::text[]) and jsonb_typeof(m.value) = 'string'
        and length(m.value #>> '{}') <= ${MAX_CLAIM}::int))::text
  from svc.users u where u.id = ${userId}::uuid`

/** The claims that a scope opens. */
export const claimsByScope = (scope: string, { profile, email, email_verified, updated_at }: UserClaims) => ({
  ...(hasScope(scope, 'profile') && { ...profile, updated_at }),
  ...(hasScope(scope, 'email') && email !== null && { email, email_verified }),
})

/** OpenID Connect Core, section 2. A nonce is that of the authorization request, and of no refresh. */
export const idTokenClaims = (
  by: { issuer: string; clientId: string; userId: string; scope: string; nonce: string | null },
  { sessionId, authTime, aal, amr }: SignInFacts,
  claims: UserClaims,
) => ({
  ...claimsByScope(by.scope, claims),
  iss: by.issuer,
  sub: by.userId,
  aud: by.clientId,
  auth_time: authTime,
  acr: aal,
  amr,
  ...(sessionId !== null && { sid: sessionId }),
  ...(by.nonce !== null && by.nonce !== '' && { nonce: by.nonce }),
})
