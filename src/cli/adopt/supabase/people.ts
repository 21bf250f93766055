import type pg from 'pg'
import { credentialOf } from '../../users-import/hashes.ts'
import { fromBase32 } from '../database/base32.ts'
import type { AdoptedUser } from '../database/people.ts'
import { readRows } from '../database/source.ts'
import type { Note } from '../plan.ts'

const BATCH = 200

const SECRETS = [
  ...['encrypted_password', 'confirmation_token', 'recovery_token', 'email_change_token', 'email_change_token_new'],
  ...['email_change_token_current', 'phone_change_token', 'reauthentication_token'],
]

/** Columns came and went over the versions of auth: each is read from the row as JSON, where a missing one is null. */
const usersQuery = (has: { identities: boolean; factors: boolean }): string => `
  select u.id::text as id, nullif(j ->> 'email', '') as email, nullif(j ->> 'phone', '') as phone, nullif(j ->> 'encrypted_password', '') as hash,
    coalesce(j ->> 'email_confirmed_at', case when j ? 'email_confirmed_at' then null else j ->> 'confirmed_at' end) is not null as "isVerified",
    j ->> 'phone_confirmed_at' is not null as "isPhoneVerified", coalesce((j ->> 'is_anonymous')::boolean, false) as "isAnonymous",
    coalesce((j ->> 'is_sso_user')::boolean, false) as "isSso", coalesce((j ->> 'banned_until')::timestamptz > now(), false) as "isBanned",
    j ->> 'deleted_at' is not null as "isDeleted", j ->> 'created_at' as "createdAt", j ->> 'updated_at' as "updatedAt",
    case when jsonb_typeof(j -> 'raw_user_meta_data') = 'object' then (j -> 'raw_user_meta_data')::text end as metadata,
    case when jsonb_typeof(j -> 'raw_app_meta_data') = 'object' then (j -> 'raw_app_meta_data')::text end as "appMetadata",
    (j - '{${SECRETS.join(',')}}'::text[])::text as row,
    ${
      has.identities
        ? `(select json_agg(json_build_object('provider', i.j ->> 'provider', 'subject', coalesce(i.j ->> 'provider_id', i.j ->> 'id')))
            from (select to_jsonb(x) as j from auth.identities x where x.user_id = u.id) i where i.j ->> 'provider' not in ('email', 'phone'))`
        : 'null::json'
    } as identities,
    ${
      has.factors
        ? `(select json_agg(json_build_object('id', f.j ->> 'id', 'type', f.j ->> 'factor_type', 'secret', f.j ->> 'secret', 'phone', f.j ->> 'phone') order by f.j ->> 'created_at')
            from (select to_jsonb(x) as j from auth.mfa_factors x where x.user_id = u.id) f where f.j ->> 'status' = 'verified')`
        : 'null::json'
    } as factors
  from auth.users u cross join lateral (select to_jsonb(u) as j) c where u.id > $1::uuid order by u.id limit ${BATCH}`

const FIRST = '00000000-0000-0000-0000-000000000000'

/** People of single sign-on last: an address that another has too is the other's. */
export async function* allUsers(from: pg.Client): AsyncGenerator<AdoptedUser[]> {
  const [has] = await readRows<{ identities: boolean; factors: boolean; sso: boolean }>(
    from,
    `select to_regclass('auth.identities') is not null as identities, to_regclass('auth.mfa_factors') is not null as factors,
       exists (select from pg_attribute where attrelid = 'auth.users'::regclass and attname = 'is_sso_user' and not attisdropped) as sso`,
  )
  const query = usersQuery(has ?? { identities: false, factors: false })
  for (const isSso of has?.sso ? [false, true] : [false]) {
    let last = FIRST
    for (;;) {
      const batch = await readRows<AdoptedUser>(from, query, [last])
      if (batch.length === 0) break
      last = batch.at(-1)?.id ?? last
      yield batch.filter((user) => user.isSso === isSso)
    }
  }
}

/** By what they sign in with; the first that fits. */
function kindOf({ hash, identities, isPhoneVerified, phone, isAnonymous, isSso }: AdoptedUser): string {
  if (isAnonymous) return 'anonymous'
  if (isSso) return 'sso'
  if (hash !== null) return credentialOf(hash).kind
  if (identities && identities.length > 0) return 'external'
  return phone !== null && isPhoneVerified ? 'phone' : 'none'
}

export async function countUsers(
  from: pg.Client,
  notes: Note[],
): Promise<{ total: number; by_credential: Record<string, number> }> {
  const kinds = new Map<string, number>()
  let [total, banned, deleted, encrypted, passkeys, sso] = [0, 0, 0, 0, 0, 0]
  for await (const batch of allUsers(from))
    for (const user of batch) {
      total++
      const kind = kindOf(user)
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
      if (user.isBanned) banned++
      if (user.isDeleted) deleted++
      if (user.isSso) sso++
      for (const { type, secret } of user.factors ?? []) {
        if (type === 'webauthn') passkeys++
        if (type === 'totp' && fromBase32(secret ?? '') === undefined) encrypted++
      }
    }
  const note = (count: number, level: Note['level'], what: string, why: string): void => {
    if (count > 0) notes.push({ level, what: `${count} ${what}`, why })
  }
  note(
    banned,
    'changed',
    'banned users',
    'are disabled until an administrator enables them, also where the ban has an end',
  )
  note(deleted, 'changed', 'deleted users', 'come as disabled accounts, because rows may name them')
  note(
    kinds.get('unknown') ?? 0,
    'changed',
    'passwords',
    'are hashes of an unknown kind: these people are mailed a link when they try to sign in',
  )
  note(
    encrypted,
    'warning',
    'authenticator apps',
    'have an encrypted secret that cannot be read: these people sign in without until they enrol again',
  )
  note(passkeys, 'warning', 'passkeys as second factor', 'are bound to the old address: these people enrol again')
  note(
    sso,
    'changed',
    'users of single sign-on',
    'come without a way to sign in: SAML is not here; a reset mail gives them a password',
  )
  return { total, by_credential: Object.fromEntries(kinds) }
}
