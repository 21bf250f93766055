import { type Sql, sql } from '../../db/sql.ts'
import type { NewCredential } from '../../identity/webauthn/ceremony.ts'
import type { NewChallenge } from '../../identity/webauthn/challenge.ts'

export const insertAdminChallenge = (c: NewChallenge, adminId: string | null): Sql => sql`
  insert into svc.admin_passkey_challenges (id, kind, admin_id, challenge, expires_at)
  values (${c.id}::uuid, ${c.kind}, ${adminId}::uuid, ${c.challenge}, now() + make_interval(secs => ${c.seconds}::float8))`

export const pendingAdminEnrolment = (adminId: string): Sql => sql`
  select challenge from svc.admin_passkey_challenges
  where admin_id = ${adminId}::uuid and kind = 'enroll' and expires_at > now()`

export const dropAdminEnrolment = (adminId: string): Sql =>
  sql`delete from svc.admin_passkey_challenges where admin_id = ${adminId}::uuid and kind = 'enroll'`

export type AdminSignIn = { challenge: string; adminId: string | null; publicKey: string | null }

/** An open question, with the passkey if there is one. */
export const adminSignIn = (id: string, credentialId: string): Sql => sql`
  select h.challenge, p.admin_id::text as "adminId", p.public_key as "publicKey"
  from svc.admin_passkey_challenges h left join svc.admin_passkeys p on p.credential_id = ${credentialId}
  where h.id = ${id}::uuid and h.kind = 'discover' and h.expires_at > now()`

/** Each is answered once. */
export const takeAdminChallenge = (id: string): Sql =>
  sql`delete from svc.admin_passkey_challenges where id = ${id}::uuid and expires_at > now() returning id`

/** No row: the counter did not increase (WebAuthn §7.2 step 22), so that the authenticator was cloned. */
export const countAdminPasskey = (credentialId: string, adminId: string, signCount: number): Sql => sql`
  update svc.admin_passkeys set sign_count = ${signCount}::bigint, last_used_at = now()
  where credential_id = ${credentialId} and admin_id = ${adminId}::uuid
    and (sign_count < ${signCount}::bigint or (sign_count = 0 and ${signCount}::bigint = 0))`

const SHOWN: Sql = sql`json_strip_nulls(json_build_object(
  'credential_id', p.credential_id, 'display_name', p.display_name, 'transports', to_json(p.transports),
  'created_at', svc.iso_utc(p.created_at), 'last_used_at', svc.iso_utc(p.last_used_at)))`

export const listAdminPasskeys = (adminId: string): Sql => sql`
  select json_build_object('credentials', coalesce(json_agg(${SHOWN} order by p.created_at, p.credential_id), '[]'))::text
  from svc.admin_passkeys p where p.admin_id = ${adminId}::uuid`

export const adminPasskeysOf = (adminId: string): Sql => sql`
  select credential_id as id, to_json(transports) as transports from svc.admin_passkeys
  where admin_id = ${adminId}::uuid order by created_at, credential_id`

/** No row if the credential is known already. */
export const insertAdminPasskey = (adminId: string, displayName: string, c: NewCredential): Sql => sql`
  insert into svc.admin_passkeys as p (credential_id, admin_id, public_key, sign_count, transports, display_name)
  values (${c.id}, ${adminId}::uuid, ${c.publicKey}, ${c.signCount}::bigint, ${c.transports}::text[], ${displayName})
  on conflict (credential_id) do nothing returning ${SHOWN} as credential`

export const deleteAdminPasskey = (adminId: string, credentialId: string): Sql =>
  sql`delete from svc.admin_passkeys where admin_id = ${adminId}::uuid and credential_id = ${credentialId}`

export const dropAdminPasskeys = (adminId: string): Sql => sql`
  with challenges as (delete from svc.admin_passkey_challenges where admin_id = ${adminId}::uuid)
  delete from svc.admin_passkeys where admin_id = ${adminId}::uuid`

export const expiredOfAdminPasskeys = [{ table: sql`svc.admin_passkey_challenges`, isOver: sql`expires_at < now()` }]
