import { type Sql, sql } from '../../../db/sql.ts'
import type { NewCredential } from '../../../identity/webauthn/ceremony.ts'
import type { NewChallenge } from '../../../identity/webauthn/challenge.ts'

// Challenges

/** Three bytes for four characters of base64url. */
const ID_BYTES: Sql = sql`octet_length(c.credential_id) * 3 / 4`

const values = (c: NewChallenge, userId: Sql): Sql => sql`
  insert into svc.webauthn_challenges (id, kind, user_id, challenge, expires_at)
  values (${c.id}::uuid, ${c.kind}, ${userId}, ${c.challenge}, now() + make_interval(secs => ${c.seconds}::float8))`

export const insertPasskeyChallenge = (c: NewChallenge, userId: string | null): Sql => values(c, sql`${userId}::uuid`)

export type LoginBegun = {
  ids: string[]
  /** Length of the id that a decoy imitates; null while there is no passkey. */
  model_bytes: number | null
}

/**
 * The same work whether the address is known or not. Returns LoginBegun as JSON. Decoys copy only first
 * passkeys of accounts, so that enrolling many does not skew their lengths.
 */
export const insertLoginChallenge = (c: NewChallenge, email: string, models: readonly number[]): Sql => sql`
  with owner as (select id from svc.users where email = ${email}),
  made as (${values(c, sql`(select id from owner)`)})
  select json_build_object(
    'ids', (
      select coalesce(json_agg(c.credential_id order by c.ordinal), '[]')
      from svc.webauthn_credentials c join owner on owner.id = c.user_id),
    'model_bytes', coalesce(
      (select ${ID_BYTES} from svc.webauthn_credentials c
       where c.ordinal = any(${models}::bigint[])
         and not exists (select from svc.webauthn_credentials o where o.user_id = c.user_id and o.ordinal < c.ordinal)
       order by c.ordinal desc limit 1),
      (select ${ID_BYTES} from svc.webauthn_credentials c order by c.ordinal limit 1)))::text`

export type PasskeyEnrolment = { challenge: string }

export const pendingEnrolment = (userId: string): Sql => sql`
  select challenge from svc.webauthn_challenges
  where user_id = ${userId}::uuid and kind = 'enroll' and expires_at > now()`

export const dropEnrolment = (userId: string): Sql =>
  sql`delete from svc.webauthn_challenges where user_id = ${userId}::uuid and kind = 'enroll'`

export type ChallengeRow = { challenge: string; is_spent: boolean; is_over: boolean }

export const mfaChallenge = (id: string, userId: string): Sql => sql`
  select challenge, spent_at is not null as is_spent, expires_at <= now() as is_over from svc.webauthn_challenges
  where id = ${id}::uuid and kind = 'mfa' and user_id = ${userId}::uuid`

export type SignIn = { challenge: string; user_id: string | null; public_key: string | null }

/** An open challenge, with the credential if it matches. */
export const signInChallenge = (id: string, kind: 'login' | 'discover', credentialId: string): Sql => sql`
  select h.challenge, c.user_id::text, c.public_key
  from svc.webauthn_challenges h left join svc.webauthn_credentials c
    on c.credential_id = ${credentialId} and (h.kind = 'discover' or c.user_id = h.user_id)
  where h.id = ${id}::uuid and h.kind = ${kind} and h.spent_at is null and h.expires_at > now()`

/**
 * Spends the challenge, and stores the counter if it increased (WebAuthn §7.2 step 22; authenticators without counter
 * always send 0). Returns {spent, counted}: spent and not counted means a cloned authenticator.
 */
export const spendPasskeyChallenge = (
  id: string,
  credential: { id: string; userId: string; signCount: number },
): Sql => sql`
  with spent as (
    update svc.webauthn_challenges set spent_at = now()
    where id = ${id}::uuid and spent_at is null and expires_at > now() returning id
  ), counted as (
    update svc.webauthn_credentials c set sign_count = ${credential.signCount}::bigint, last_used_at = now()
    from spent
    where c.credential_id = ${credential.id} and c.user_id = ${credential.userId}::uuid
      and (c.sign_count < ${credential.signCount}::bigint or (c.sign_count = 0 and ${credential.signCount}::bigint = 0))
    returning c.credential_id
  )
  select exists (select from spent) as spent, exists (select from counted) as counted`

export type Spent = { spent: boolean; counted: boolean }

// Credentials

/** A passkey as the API shows it. */
const METADATA: Sql = sql`json_strip_nulls(json_build_object(
  'credential_id', c.credential_id, 'display_name', c.display_name, 'transports', to_json(c.transports),
  'created_at', svc.iso_utc(c.created_at), 'last_used_at', svc.iso_utc(c.last_used_at)))`

export const listCredentials = (userId: string): Sql => sql`
  select json_build_object('credentials',
    coalesce(json_agg(${METADATA} order by c.created_at, c.credential_id), '[]'))::text
  from svc.webauthn_credentials c where c.user_id = ${userId}::uuid`

export type StoredPasskey = { id: string; transports: string[] }

export const passkeysOf = (userId: string): Sql => sql`
  select credential_id as id, to_json(transports) as transports from svc.webauthn_credentials
  where user_id = ${userId}::uuid order by created_at, credential_id`

export const publicKeyOf = (userId: string, credentialId: string): Sql => sql`
  select public_key from svc.webauthn_credentials
  where credential_id = ${credentialId} and user_id = ${userId}::uuid`

/** No row if the credential belongs to an account already. */
export const insertCredential = (userId: string, displayName: string, c: NewCredential): Sql => sql`
  insert into svc.webauthn_credentials as c (credential_id, user_id, public_key, sign_count, transports, display_name)
  values (${c.id}, ${userId}::uuid, ${c.publicKey}, ${c.signCount}::bigint, ${c.transports}::text[], ${displayName})
  on conflict (credential_id) do nothing returning ${METADATA} as credential`

export const renameCredential = (userId: string, credentialId: string, displayName: string): Sql => sql`
  update svc.webauthn_credentials c set display_name = ${displayName}
  where c.credential_id = ${credentialId} and c.user_id = ${userId}::uuid returning ${METADATA} as credential`

export const deleteCredential = (userId: string, credentialId: string): Sql => sql`
  delete from svc.webauthn_credentials
  where credential_id = ${credentialId} and user_id = ${userId}::uuid returning display_name`

export const deleteCredentials = (userId: string): Sql =>
  sql`delete from svc.webauthn_credentials where user_id = ${userId}::uuid`

/** All passkeys of a user, for when the owner of the address takes over the account. */
export const dropPasskeys = (userId: string): Sql => sql`
  with challenges as (delete from svc.webauthn_challenges where user_id = ${userId}::uuid) ${deleteCredentials(userId)}`

export const dropPasskeysSince = (userId: string, since: string): Sql =>
  sql`delete from svc.webauthn_credentials where user_id = ${userId}::uuid and created_at >= ${since}::timestamptz`

export const expiredOfPasskeys = [{ table: sql`svc.webauthn_challenges`, isOver: sql`expires_at < now()` }]
