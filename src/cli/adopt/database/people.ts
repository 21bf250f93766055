import type pg from 'pg'
import { isEmail, normaliseEmail } from '../../../core/contact/email-address.ts'
import type { SecretBox } from '../../../core/secret-box.ts'
import { inTransaction } from '../../../db/setup/migrate.ts'
import { totpSecrets } from '../../../features/mfa/totp.ts'
import { credentialOf } from '../../users-import/hashes.ts'
import { emptyAccount } from '../join.ts'
import type { Note } from '../plan.ts'
import { fromBase32 } from './base32.ts'

const MAX_LISTED = 100

export type AdoptedUser = {
  id: string
  email: string | null
  phone: string | null
  hash: string | null
  isVerified: boolean
  isPhoneVerified: boolean
  isAnonymous: boolean
  isSso: boolean
  isBanned: boolean
  isDeleted: boolean
  createdAt: string | null
  updatedAt: string | null
  metadata: string | null
  appMetadata: string | null
  /** The row there without its secrets, as JSON text. */
  row: string
  identities: { provider: string; subject: string }[] | null
  factors: { id: string; type: string; secret: string | null; phone: string | null }[] | null
}

type PeopleTarget = {
  source: string
  client: pg.Client
  box: SecretBox
  /** Writes the row that the source had; undefined where it is there already. */
  keepRow: ((row: string) => Promise<void>) | undefined
}

/** Adds the accounts that no run has added before; resolves to their number. */
export async function bringUsers(
  users: AsyncIterable<readonly AdoptedUser[]>,
  target: PeopleTarget,
  notes: Note[],
): Promise<number> {
  let added = 0
  let listed = 0
  const say = (what: string, why: string): void => {
    if (++listed <= MAX_LISTED) notes.push({ level: 'changed', what, why })
  }
  for await (const batch of users) {
    const { rows } = await target.client.query<{ key: string }>(
      `select key from svc.adopted where source = $2 and kind = 'user' and key = any ($1)`,
      [batch.map(({ id }) => id), target.source],
    )
    const known = new Set(rows.map(({ key }) => key))
    const fresh = batch.filter(({ id }) => !known.has(id))
    if (fresh.length === 0) continue
    await inTransaction(target.client, async () => {
      await target.client.query(`select set_config('svc.adopting', 'on', true)`)
      for (const user of fresh) await addUser(target, user, say)
    })
    added += fresh.length
  }
  if (listed > MAX_LISTED)
    notes.push({ level: 'changed', what: `${listed - MAX_LISTED} further accounts`, why: 'for the same reasons' })
  return added
}

async function addUser(
  target: PeopleTarget,
  user: AdoptedUser,
  say: (what: string, why: string) => void,
): Promise<void> {
  const { client } = target
  const { id } = user
  await client.query(`insert into svc.adopted (source, kind, key, target) values ($2, 'user', $1, $1)`, [
    id,
    target.source,
  ])
  const there = await client.query('select from svc.users where id = $1', [id])
  if (there.rowCount !== 0) {
    say(user.email ?? id, 'has an account of this id here already, which stays as it is')
    return
  }
  const { email, hash, isVerified } = await addressOf(client, user, say)
  const phone = await phoneOf(client, user, say)
  const isDisabled = user.isBanned || user.isDeleted
  await client.query(
    `insert into svc.users (id, email, phone, password_hash, email_verified_at, disabled_at, is_anonymous, metadata, app_metadata, created_at)
     values ($1, $2, $3, $4, case when $5::boolean then now() end, case when $6::boolean then now() end, $7::boolean, $8::jsonb, $9::jsonb,
       coalesce($10::timestamptz, now()))`,
    [
      id,
      email,
      phone,
      hash,
      isVerified,
      isDisabled,
      user.isAnonymous,
      user.metadata ?? '{}',
      user.appMetadata ?? '{}',
      user.createdAt,
    ],
  )
  // Whose hash cannot be checked here is mailed a link at the first attempt to sign in.
  if (user.hash !== null && hash === null && email !== null)
    await client.query('insert into svc.lost_passwords (user_id) values ($1) on conflict do nothing', [id])
  for (const { provider, subject } of user.identities ?? []) {
    if (provider.startsWith('sso:') || subject === null) continue
    await client.query(
      'insert into svc.identities (provider, subject, user_id) values ($1, $2, $3) on conflict do nothing',
      [provider, subject, id],
    )
  }
  await addFactors(target, user, say)
  await target.keepRow?.(user.row)
}

type Address = { email: string | null; hash: string | null; isVerified: boolean }

/** A person keeps the id, because rows and policies name it: an account here is never joined, and one of both has the address. */
async function addressOf(
  client: pg.Client,
  user: AdoptedUser,
  say: (what: string, why: string) => void,
): Promise<Address> {
  const given = normaliseEmail(user.email ?? '')
  const hash = user.hash !== null && !user.isSso ? (credentialOf(user.hash).hash ?? null) : null
  const own: Address = { email: isEmail(given) ? given : null, hash, isVerified: user.isVerified && isEmail(given) }
  if (own.email === null) return own
  const { rows } = await client.query<{ id: string; state: string; is_newer: string }>(
    `select id::text, case when email_verified_at is null then 'unverified' else 'verified' end as state,
       (updated_at > coalesce($2::timestamptz, '-infinity'))::text as is_newer from svc.users where email = $1 for no key update`,
    [own.email, user.updatedAt],
  )
  const [local] = rows
  if (!local) return own
  const bare: Address = { email: null, hash: null, isVerified: false }
  if (local.state === 'verified' || (!own.isVerified && local.is_newer === 'true')) {
    say(
      `${own.email} (${user.id})`,
      `the account ${local.id} has this address here: it comes without address and password`,
    )
    return bare
  }
  await emptyAccount(client, local.id, undefined)
  say(`${own.email} (${user.id})`, `the unverified account ${local.id} had this address here: it was emptied`)
  return own
}

async function phoneOf(
  client: pg.Client,
  user: AdoptedUser,
  say: (what: string, why: string) => void,
): Promise<string | null> {
  if (user.phone === null || !user.isPhoneVerified) return null
  const phone = `+${user.phone.replace(/^\+/, '')}`
  if (!/^\+[1-9]\d{6,14}$/.test(phone)) {
    say(`${user.id}`, 'its phone number is none of E.164 and was left out')
    return null
  }
  const { rowCount } = await client.query('select from svc.users where phone = $1', [phone])
  if (rowCount === 0) return phone
  say(`${user.id}`, 'its phone number is another account’s here')
  return null
}

async function addFactors(
  { client, box }: PeopleTarget,
  user: AdoptedUser,
  say: (what: string, why: string) => void,
): Promise<void> {
  let more = 0
  for (const { id, type, secret, phone } of user.factors ?? []) {
    const bytes = type === 'totp' ? fromBase32(secret ?? '') : undefined
    const number = type === 'phone' && phone ? `+${phone.replace(/^\+/, '')}` : undefined
    if (bytes === undefined && number === undefined) continue
    const { rowCount } = await client.query(
      `insert into svc.mfa_factors (id, user_id, method, secret, phone, confirmed_at) values ($1, $2, $3, $4, $5, now()) on conflict do nothing`,
      [
        id,
        user.id,
        bytes ? 'totp' : 'sms',
        bytes ? box.seal(bytes.toString('hex'), totpSecrets.context(id)) : null,
        number ?? null,
      ],
    )
    if (rowCount === 0) more++
  }
  if (more > 0)
    say(user.email ?? user.id, `${more} further second factors of the same kind were left out: one of each is kept`)
}
