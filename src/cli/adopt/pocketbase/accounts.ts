import { createHash } from 'node:crypto'
import type pg from 'pg'
import { isEmail, normaliseEmail } from '../../../core/contact/email-address.ts'
import { inTransaction } from '../../../db/setup/migrate.ts'
import { isBcrypt } from '../../../identity/password-hashing.ts'
import { emptyAccount } from '../join.ts'
import type { Note } from '../plan.ts'
import type { Collection } from './collections.ts'
import { quoted } from './rule-sql.ts'
import { idIn, type Source, type SourceRow, sqliteName, wholeText } from './source.ts'

type AuthRecord = {
  key: string
  collection: Collection
  email: string
  isVerified: boolean
  hash: string | undefined
  /** There; it may not come along. */
  hadPassword: boolean
  isDisabled: boolean
  changedAt: string
  createdAt: string | null
}

/** Records that become one account; the first decides about it. */
type Person = {
  records: AuthRecord[]
  email: string | null
  hash: string | null
  isVerified: boolean
  isDisabled: boolean
}
export type People = { people: Person[]; notes: Note[]; byCredential: Record<string, number>; total: number }
type External = { key: string; provider: string; subject: string }

export function readPeople(source: Source, collections: readonly Collection[]): People {
  const notes: Note[] = []
  const records = collections.filter(({ type }) => type === 'auth').flatMap((one) => recordsOf(source, one, notes))
  const byAddress = new Map<string, AuthRecord[]>()
  const people: Person[] = []
  for (const record of records) {
    if (record.email === '') people.push(alone(record, null))
    else byAddress.set(record.email, [...(byAddress.get(record.email) ?? []), record])
  }
  for (const [email, group] of byAddress) people.push(...merged(email, group, notes))
  const external = new Set(externalOf(source).map(({ key }) => key))
  const byCredential: Record<string, number> = {}
  for (const { hash, records: all } of people) {
    const kind = hash ? 'bcrypt' : all.some(({ key }) => external.has(key)) ? 'external' : 'none'
    byCredential[kind] = (byCredential[kind] ?? 0) + 1
  }
  const mute = people.filter(({ email, hash }) => email === null && hash !== null).length
  if (mute > 0)
    notes.push({
      level: 'warning',
      what: `${mute} accounts`,
      why: 'have a password and no address: they cannot sign in by user name here',
    })
  notes.push(...superusersOf(source))
  return { people, notes, byCredential, total: people.length }
}

function recordsOf(source: Source, collection: Collection, notes: Note[]): AuthRecord[] {
  const columns = source.columns(collection.name)
  const hashColumn = columns.includes('passwordHash') ? 'passwordHash' : 'password'
  const only = collection.authRule !== null && /^verified\s*=\s*true$/.test(collection.authRule)
  const isClosed = collection.authRule === null || (collection.authRule !== '' && !only)
  if (isClosed)
    notes.push({
      level: 'closed',
      what: `${collection.name}.authRule`,
      why: 'its accounts are disabled: enable those who may sign in',
    })
  if (only)
    notes.push({
      level: 'changed',
      what: `${collection.name}.authRule`,
      why: 'unverified people come without a password: a reset mail proves the address',
    })
  if (!collection.passwordAuth)
    notes.push({ level: 'changed', what: collection.name, why: 'password sign-in was off: no password comes along' })
  if (collection.manageRule)
    notes.push({
      level: 'skipped',
      what: `${collection.name}.manageRule`,
      why: 'accounts are managed by administrators here',
    })
  if (collection.otherSignIn.length > 0)
    notes.push({
      level: 'skipped',
      what: `${collection.name}: ${collection.otherSignIn.join(', ')}`,
      why: 'is set up in the configuration here (auth.oauth, auth.magic_link_enabled), or by people themselves (second factors)',
    })
  let strange = 0
  const wanted = [
    'id',
    'email',
    'verified',
    hashColumn,
    ...['created', 'updated'].filter((name) => columns.includes(name)),
  ]
  const rows = source.all(`select ${wanted.map(wholeText).join(', ')} from ${sqliteName(collection.name)} order by id`)
  const records = rows.map((row: SourceRow): AuthRecord => {
    const given = normaliseEmail(String(row['email'] ?? ''))
    const isVerified = Number(row['verified']) === 1
    const hash = String(row[hashColumn] ?? '')
    if (hash !== '' && !isBcrypt(hash)) strange++
    const isKept = isBcrypt(hash) && collection.passwordAuth && !(only && !isVerified)
    return {
      key: `${collection.id}/${idIn(row)}`,
      collection,
      email: isEmail(given) ? given : '',
      isVerified,
      hash: isKept ? hash : undefined,
      hadPassword: hash !== '' && collection.passwordAuth,
      isDisabled: isClosed,
      changedAt: String(row['updated'] ?? row['created'] ?? ''),
      createdAt: row['created'] ? String(row['created']) : null,
    }
  })
  if (strange > 0)
    notes.push({
      level: 'warning',
      what: `${strange} passwords of ${collection.name}`,
      why: 'are no bcrypt hashes of a cost up to 15: these people reset theirs',
    })
  return records
}

const alone = (record: AuthRecord, email: string | null): Person => ({
  records: [record],
  email,
  hash: record.hash ?? null,
  isVerified: email !== null && record.isVerified,
  isDisabled: record.isDisabled,
})

/** One address in several collections: an account of the verified ones; an unverified one proves nothing about its owner. */
function merged(email: string, group: AuthRecord[], notes: Note[]): Person[] {
  if (group.length === 1 && group[0]) return [alone(group[0], email)]
  const verified = group.filter(({ isVerified }) => isVerified)
  const sides = verified.length > 0 ? verified : [...group].sort((a, b) => (a.changedAt > b.changedAt ? -1 : 1))
  const joined = sides.filter(
    (one, index) => sides.findIndex(({ collection }) => collection === one.collection) === index,
  )
  const rest = group.filter((one) => !joined.includes(one))
  const hashes = joined.flatMap(({ hash }) => hash ?? [])
  const hash = verified.length > 0 ? (hashes.length === 1 ? hashes[0] : undefined) : joined[0]?.hash
  notes.push({
    level: 'changed',
    what: email,
    why: `${joined.length} records of ${joined.map(({ collection }) => collection.name).join(', ')} are one account${hash ? '' : ' without a password'}`,
  })
  for (const { key } of rest)
    notes.push({
      level: 'changed',
      what: `${email} (${key})`,
      why: 'comes without address and password: the address is another account’s, or is not verified on every side',
    })
  return [
    {
      records: joined,
      email,
      hash: hash ?? null,
      isVerified: verified.length > 0,
      isDisabled: joined.some(({ isDisabled }) => isDisabled),
    },
    ...rest.map((one) => ({ ...alone(one, null), hash: null })),
  ]
}

function externalOf(source: Source): External[] {
  const columns = source.columns('_externalAuths')
  if (columns.length === 0) return []
  const [collection, record] = columns.includes('recordRef')
    ? ['collectionRef', 'recordRef']
    : ['collectionId', 'recordId']
  return source
    .all(`select "${collection}" as c, "${record}" as r, provider, "providerId" as s from _externalAuths`)
    .map((row) => ({
      key: `${String(row['c'])}/${String(row['r'])}`,
      provider: String(row['provider']),
      subject: String(row['s']),
    }))
}

function superusersOf(source: Source): Note[] {
  const table = ['_superusers', '_admins'].find((name) => source.columns(name).includes('email'))
  if (table === undefined) return []
  return source.all(`select email from ${table} order by email`).map((row) => ({
    level: 'skipped',
    what: `superuser ${String(row['email'])}`,
    why: 'administrators are added with svc admin add',
  }))
}

/** The same at every run, so that a run that was ended goes on with the same accounts. */
function accountIdOf(key: string): string {
  const hex = createHash('sha256').update(`pocketbase:${key}`).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

/** Adds the accounts that no run has added before; resolves to their number. */
export async function bringPeople(
  client: pg.Client,
  source: Source,
  { people }: People,
  notes: Note[],
): Promise<number> {
  const external = new Map<string, External[]>()
  for (const one of externalOf(source)) external.set(one.key, [...(external.get(one.key) ?? []), one])
  let added = 0
  for (const person of people) {
    const keys = person.records.map(({ key }) => key)
    const { rows } = await client.query<{ key: string }>(
      `select key from svc.adopted where source = 'pocketbase' and kind = 'user' and key = any ($1)`,
      [keys],
    )
    const known = new Set(rows.map(({ key }) => key))
    const fresh = person.records.filter(({ key }) => !known.has(key))
    if (fresh.length === 0) continue
    await inTransaction(client, () => addPerson(client, { ...person, records: fresh }, external, notes))
    added++
  }
  return added
}

async function addPerson(
  client: pg.Client,
  person: Person,
  external: ReadonlyMap<string, External[]>,
  notes: Note[],
): Promise<void> {
  await client.query(`select set_config('svc.adopting', 'on', true)`)
  const [first] = person.records
  if (!first) return
  let id = accountIdOf(first.key)
  let { email, hash, isVerified } = person
  const { rows } = await client.query<{ id: string; state: string }>(
    `select id::text, case when email_verified_at is null then 'unverified' else 'verified' end as state
     from svc.users where email = $1 for no key update`,
    [email],
  )
  const [found] = rows
  const local = found && { id: found.id, proven: found.state === 'verified' }
  const isTaken = local !== undefined && (await hasProfile(client, local.id, person.records))
  const isMade = !local || isTaken || (local.proven && !isVerified)
  if (isMade && local) {
    notes.push({
      level: 'changed',
      what: `${email ?? ''} (${first.key})`,
      why: 'an account here has this address, verified or with a profile: it comes without address and password',
    })
    ;[email, hash, isVerified] = [null, null, false]
  }
  if (isMade) {
    await client.query(
      `insert into svc.users (id, email, password_hash, email_verified_at, disabled_at, created_at)
       values ($1, $2, $3, case when $4::boolean then now() end, case when $5::boolean then now() end, coalesce($6::timestamptz, now()))`,
      [id, email, hash, isVerified, person.isDisabled, first.createdAt],
    )
    // Who tries the old password is mailed a link that sets a new one.
    if (email !== null && hash === null && person.records.some(({ hadPassword }) => hadPassword))
      await client.query('insert into svc.lost_passwords (user_id) values ($1)', [id])
  } else if (local) {
    id = local.id
    if (!local.proven) await emptyAccount(client, id, { hash, isVerified })
    notes.push({
      level: 'changed',
      what: email ?? '',
      why: local.proven
        ? 'has an account here, which keeps its password'
        : 'had an unverified account here: what it had was ended',
    })
  }
  for (const { key } of person.records) {
    await client.query(`insert into svc.adopted (source, kind, key, target) values ('pocketbase', 'user', $1, $2)`, [
      key,
      id,
    ])
    // Unverified records with one address may be of several people; the first has the account.
    if (!person.isVerified && key !== first.key) continue
    for (const { provider, subject } of external.get(key) ?? []) {
      await client.query(
        'insert into svc.identities (provider, subject, user_id) values ($1, $2, $3) on conflict do nothing',
        [provider, subject, id],
      )
    }
  }
}

/** An account has one profile in a collection. */
async function hasProfile(client: pg.Client, id: string, records: readonly AuthRecord[]): Promise<boolean> {
  for (const { collection } of records) {
    const { rowCount } = await client.query(`select from public.${quoted(collection.name)} where account_id = $1`, [id])
    if (rowCount !== 0) return true
  }
  return false
}
