import { createHash } from 'node:crypto'
import type pg from 'pg'
import { inTransaction } from '../../db/setup/migrate.ts'
import { emptyAccount } from '../adopt/join.ts'
import type { ManyNotes } from '../adopt/notes.ts'
import type { Format } from './formats.ts'
import type { Person } from './person.ts'

type Account = { id: string; email: string | null; phone: string | null; isVerified: boolean }

export type ImportCounts = { users: number; joined: number }

/** In `svc.adopted`; a database that was adopted as a whole has another. */
export const importSource = (format: Format): string => `users ${format}`

const TRIES = 5
const UNIQUE_VIOLATION = '23505'

/** The same at every run, so that a run that was ended goes on with the same accounts. */
function idOf(format: Format, { id, key }: Person): string {
  if (id !== undefined) return id
  const hex = createHash('sha256').update(`${format}:${key}`).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

/** Adds those whom no run has added before, all or none. People who register meanwhile may take an address first. */
export async function bringBatch(
  client: pg.Client,
  format: Format,
  people: readonly Person[],
  notes: ManyNotes,
): Promise<ImportCounts> {
  for (let tries = 1; ; tries++) {
    const said: Parameters<ManyNotes['add']>[] = []
    try {
      const brought = await inTransaction(client, () => addPeople(client, format, people, (...note) => said.push(note)))
      for (const note of said) notes.add(...note)
      return brought
    } catch (error) {
      if ((error as { code?: string }).code !== UNIQUE_VIOLATION || tries === TRIES) throw error
    }
  }
}

type Say = ManyNotes['add']

async function addPeople(
  client: pg.Client,
  format: Format,
  people: readonly Person[],
  say: Say,
): Promise<ImportCounts> {
  const ids = new Map(people.map((person) => [person.key, idOf(format, person)]))
  const { rows: claimed } = await client.query<{ key: string }>(
    `insert into svc.adopted (source, kind, key, target) select $1, 'user', k.key, k.id
     from unnest($2::text[], $3::text[]) as k(key, id) on conflict do nothing returning key`,
    [importSource(format), [...ids.keys()], [...ids.values()]],
  )
  const isNew = new Set(claimed.map(({ key }) => key))
  const fresh = people.filter(({ key }) => isNew.has(key))
  if (fresh.length === 0) return { users: 0, joined: 0 }
  const known = await accountsLike(client, fresh, ids)
  const plain: { id: string; person: Person }[] = []
  let joined = 0
  for (const person of fresh) {
    const id = ids.get(person.key) ?? ''
    if (known.some((one) => one.id === id)) {
      say('skipped', person.email ?? person.key, 'an account here has this id')
      continue
    }
    const taken = person.phone !== null && known.some(({ phone }) => phone === person.phone)
    if (taken)
      say('changed', `${person.phone} (${person.key})`, 'an account here has this phone number: it comes without it')
    const rest = taken ? { ...person, phone: null } : person
    const local = known.find(({ email }) => email !== null && email === person.email)
    const made = local ? await meet(client, format, rest, local, say) : rest
    if (made) plain.push({ id, person: made })
    else joined++
  }
  await insertAll(client, plain)
  return { users: plain.length, joined }
}

/** Accounts that have an id, address or number of these people, locked. */
async function accountsLike(
  client: pg.Client,
  people: readonly Person[],
  ids: ReadonlyMap<string, string>,
): Promise<Account[]> {
  const { rows } = await client.query<Omit<Account, 'isVerified'> & { state: string }>(
    `select id::text, email, phone, case when email_verified_at is null then '' else 'verified' end as state from svc.users
     where id = any ($1::uuid[]) or email = any ($2) or phone = any ($3) order by id for no key update`,
    [
      people.flatMap(({ key }) => ids.get(key) ?? []),
      people.flatMap(({ email }) => email ?? []),
      people.flatMap(({ phone }) => phone ?? []),
    ],
  )
  return rows.map(({ state, ...row }) => ({ ...row, isVerified: state === 'verified' }))
}

/**
 * The address has an account here. Resolves to whom to add beside it; undefined: joined. A person of Supabase keeps the id,
 * because rows and policies name it.
 */
async function meet(
  client: pg.Client,
  format: Format,
  person: Person,
  local: Account,
  say: Say,
): Promise<Person | undefined> {
  const what = person.email ?? person.key
  const keepsId = format === 'supabase'
  if (local.isVerified && (keepsId || !person.isVerified)) {
    say(
      'changed',
      `${what} (${person.key})`,
      'an account here has this address, verified: it comes without address and password',
    )
    return { ...person, email: null, isVerified: false, credential: undefined }
  }
  const hash = person.credential?.hash ?? null
  if (local.isVerified) {
    say('changed', what, 'has an account here, which keeps its password')
  } else {
    say('changed', what, 'had an unverified account here: what it had was ended')
    await emptyAccount(client, local.id, keepsId ? undefined : { hash, isVerified: person.isVerified })
    if (keepsId) return person
    await client.query(
      `update svc.users set disabled_at = case when $2::boolean then now() else disabled_at end,
         metadata = $3::jsonb, app_metadata = $4::jsonb || app_metadata where id = $1`,
      [local.id, person.isDisabled, person.metadata, person.appMetadata],
    )
    await keepLost(client, hash === null && person.credential ? [local.id] : [])
  }
  await client.query(`update svc.adopted set target = $3 where source = $1 and kind = 'user' and key = $2`, [
    importSource(format),
    person.key,
    local.id,
  ])
  await link(client, [{ id: local.id, person }])
  return undefined
}

async function insertAll(client: pg.Client, made: readonly { id: string; person: Person }[]): Promise<void> {
  if (made.length === 0) return
  await client.query(
    `insert into svc.users (id, email, phone, password_hash, email_verified_at, disabled_at, is_anonymous, metadata, app_metadata, created_at)
     select r.id, r.email, r.phone, r.hash, case when r.verified then now() end, case when r.disabled then now() end, r.anonymous,
       coalesce(r.metadata, '{}'), coalesce(r.app_metadata, '{}'), coalesce(r.created, now())
     from json_to_recordset($1) as r(id uuid, email text, phone text, hash text, verified boolean, disabled boolean, anonymous boolean,
       metadata jsonb, app_metadata jsonb, created timestamptz)`,
    [`[${made.map(rowOf).join()}]`],
  )
  await keepLost(
    client,
    made.flatMap(({ id, person }) =>
      person.credential && !person.credential.hash && person.email !== null ? [id] : [],
    ),
  )
  await link(client, made)
}

const rowOf = ({ id, person }: { id: string; person: Person }): string => {
  const { email, phone, credential, isVerified, isDisabled, isAnonymous, metadata, appMetadata, createdAt } = person
  const plain = JSON.stringify({
    ...{ id, email, phone, hash: credential?.hash ?? null, verified: isVerified },
    ...{ disabled: isDisabled, anonymous: isAnonymous, created: createdAt },
  })
  return `${plain.slice(0, -1)},"metadata":${metadata},"app_metadata":${appMetadata}}`
}

/** Who had a password that cannot be checked here is mailed a link at the first sign-in. */
async function keepLost(client: pg.Client, ids: readonly string[]): Promise<void> {
  if (ids.length > 0)
    await client.query('insert into svc.lost_passwords (user_id) select unnest($1::uuid[]) on conflict do nothing', [
      ids,
    ])
}

async function link(client: pg.Client, made: readonly { id: string; person: Person }[]): Promise<void> {
  const linked = made.flatMap(({ id, person }) => person.identities.map((one) => ({ ...one, id })))
  if (linked.length === 0) return
  await client.query(
    `insert into svc.identities (provider, subject, user_id)
     select * from unnest($1::text[], $2::text[], $3::uuid[]) on conflict do nothing`,
    [linked.map(({ provider }) => provider), linked.map(({ subject }) => subject), linked.map(({ id }) => id)],
  )
}
