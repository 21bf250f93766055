import type pg from 'pg'
import { credentialOf } from '../../users-import/hashes.ts'
import type { SourceObject } from '../database/bring-files.ts'
import { type Catalogue, readCatalogue, type SourceTable, tablesQuery } from '../database/catalogue.ts'
import { type SchemaStep, stepsOf } from '../database/ddl.ts'
import type { AdoptedUser } from '../database/people.ts'
import { plannedPolicy, plannedTables } from '../database/planned.ts'
import { readRows } from '../database/source.ts'
import type { Note, Plan } from '../plan.ts'
import { type AppsAndMails, readAppsAndMails } from './apps-and-mails.ts'

/** Its own tables begin with _ayb_; schema auth holds one function of it. */
const SCOPE = {
  schemas: `n.nspname !~ '^svc(_|$)' and n.nspname <> 'auth'`,
  tables: `c.relname !~ '^_ayb_'`,
}
export const AYB_ROLE = 'ayb_authenticated'

type AybBucket = { id: string; name: string; access: 'public' | 'private' }
export type AybPlan = {
  plan: Plan
  catalogue: Catalogue
  users: SourceTable
  steps: SchemaStep[]
  buckets: AybBucket[]
  hasUid: boolean
  besides: AppsAndMails
}

/** The caller is known by another prefix, and accounts are the server's own. */
const renamedPrefix = (text: string): string =>
  text
    .replaceAll(/'ayb\.user_(id|email)'/g, "'svc.user_$1'")
    .replaceAll(/REFERENCES (public\.)?_ayb_users\s*\(id\)/gi, 'REFERENCES svc.users(id)')

export async function planAllYourBase(
  from: pg.Client,
  options: { shown: string; isApplied: boolean; hasFiles: boolean; isInPlace: boolean; notes: Note[] },
): Promise<AybPlan> {
  const { notes, isInPlace } = options
  const [users] = await readRows<SourceTable>(from, tablesQuery(`n.nspname = 'public' and c.relname = '_ayb_users'`))
  if (!users?.columns.some(({ name }) => name === 'password_hash'))
    throw new Error('this is no database of AllYourBase: it has no table _ayb_users as AllYourBase makes it')
  const read = await readCatalogue(from, SCOPE)
  const catalogue = { ...read, functions: read.functions.filter(({ name }) => !/^_?ayb_/.test(name)) }
  const steps = isInPlace
    ? []
    : stepsOf(catalogue, { rewrite: renamedPrefix, roles: new Set([AYB_ROLE]), missing: usesItsTables }, notes)
  const [uid] = await readRows<{ there: boolean }>(from, `select to_regprocedure('auth.uid()') is not null as there`)
  const files = await countFiles(from)
  const buckets = await readAybBuckets(from, notes)
  if (!options.hasFiles && files.count > 0)
    notes.push({
      level: 'skipped',
      what: `${files.count} files`,
      why: 'their bytes are not in the database: give their folder with --files',
    })
  const besides = await readAppsAndMails(from, (table) => hasTable(from, table), notes)
  await listItsTables(from, notes)
  const plan: Plan = {
    source: `allyourbase ${options.shown}`,
    apply: options.isApplied,
    tables: await plannedTables(from, catalogue.tables),
    policies: catalogue.policies.map((policy) => {
      const planned = plannedPolicy(policy)
      const here = (text: string | null): string | null => (text === null || isInPlace ? text : renamedPrefix(text))
      return { ...planned, using: here(planned.using), check: here(planned.check) }
    }),
    users: await countAybUsers(from),
    files,
    notes,
  }
  return { plan, catalogue, users, steps, buckets, hasUid: uid?.there === true, besides }
}

/** A foreign key to its users is one to ours; anything else of its own is not here. */
function usesItsTables(text: string): string | undefined {
  return /\b_ayb_\w+/.exec(renamedPrefix(text))?.[0]
}

const BATCH = 200
const USERS = `
  select u.id::text as id, nullif(j ->> 'email', '') as email, nullif(j ->> 'phone', '') as phone,
    case when j ->> 'password_hash' like '$none$%' then null else nullif(j ->> 'password_hash', '') end as hash,
    coalesce((j ->> 'email_verified')::boolean, false) as "isVerified", j ->> 'phone' is not null as "isPhoneVerified",
    coalesce((j ->> 'is_anonymous')::boolean, false) as "isAnonymous", false as "isSso", false as "isBanned", false as "isDeleted",
    j ->> 'created_at' as "createdAt", j ->> 'updated_at' as "updatedAt",
    case when jsonb_typeof(j -> 'metadata') = 'object' then (j -> 'metadata')::text end as metadata, null::text as "appMetadata", '{}' as row,
    null::json as factors, ACCOUNTS as identities
  from public._ayb_users u cross join lateral (select to_jsonb(u) as j) c where u.id > $1::uuid order by u.id limit ${BATCH}`

export async function* aybUsers(from: pg.Client): AsyncGenerator<AdoptedUser[]> {
  const [has] = await readRows<{ there: boolean }>(
    from,
    `select to_regclass('public._ayb_oauth_accounts') is not null as there`,
  )
  const query = USERS.replace('ACCOUNTS', () =>
    has?.there
      ? `(select json_agg(json_build_object('provider', a.provider, 'subject', a.provider_user_id)) from public._ayb_oauth_accounts a where a.user_id = u.id)`
      : 'null::json',
  )
  let last = '00000000-0000-0000-0000-000000000000'
  for (;;) {
    const batch = await readRows<AdoptedUser>(from, query, [last])
    if (batch.length === 0) return
    last = batch.at(-1)?.id ?? last
    yield batch
  }
}

async function countAybUsers(from: pg.Client): Promise<Plan['users']> {
  const kinds = new Map<string, number>()
  let total = 0
  for await (const batch of aybUsers(from))
    for (const { hash, identities, isAnonymous } of batch) {
      total++
      const kind = isAnonymous
        ? 'anonymous'
        : hash !== null
          ? credentialOf(hash).kind
          : identities && identities.length > 0
            ? 'external'
            : 'none'
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
    }
  return { total, by_credential: Object.fromEntries(kinds) }
}

const hasTable = async (from: pg.Client, name: string): Promise<boolean> =>
  (await readRows<{ there: boolean }>(from, `select to_regclass('public.${name}') is not null as there`))[0]?.there ===
  true

async function countFiles(from: pg.Client): Promise<Plan['files']> {
  if (!(await hasTable(from, '_ayb_storage_objects'))) return { count: 0, bytes: 0 }
  const [row] = await readRows<Plan['files']>(
    from,
    'select count(*) as count, coalesce(sum(size), 0) as bytes from public._ayb_storage_objects',
  )
  return row ?? { count: 0, bytes: 0 }
}

/** A bucket that nothing says to be public is private here: its owner's alone. */
async function readAybBuckets(from: pg.Client, notes: Note[]): Promise<AybBucket[]> {
  if (!(await hasTable(from, '_ayb_storage_objects'))) return []
  const known = (await hasTable(from, '_ayb_storage_buckets'))
    ? await readRows<{ id: string; public: boolean }>(
        from,
        'select name as id, public from public._ayb_storage_buckets',
      )
    : []
  const used = await readRows<{ id: string }>(
    from,
    'select distinct bucket as id from public._ayb_storage_objects order by 1',
  )
  const isPublic = new Map(known.map((bucket) => [bucket.id, bucket.public]))
  return [...new Set([...known, ...used].map(({ id }) => id))].flatMap((id) => {
    if (!/^[a-z0-9][a-z0-9_-]{0,62}$/.test(id) || ['buckets', 'upload', 'tus'].includes(id)) {
      notes.push({ level: 'skipped', what: `bucket ${id}`, why: 'is no name for a bucket here' })
      return []
    }
    const access = isPublic.get(id) === true ? 'public' : 'private'
    if (access === 'private')
      notes.push({ level: 'closed', what: `bucket ${id}`, why: 'is private here: open it where everybody may read' })
    return [{ id, name: id, access }]
  })
}

export async function* aybObjects(from: pg.Client, buckets: readonly AybBucket[]): AsyncGenerator<SourceObject[]> {
  if (buckets.length === 0) return
  await from.query(
    `declare objects_of_ayb no scroll cursor for select json_build_object('key', o.bucket || '/' || o.name, 'folder', o.bucket, 'bucket', o.bucket, 'name', o.name,
       'id', o.id, 'version', null, 'owner', o.user_id, 'contentType', o.content_type, 'metadata', null, 'createdAt', o.created_at, 'updatedAt', o.updated_at)::text as one
     from public._ayb_storage_objects o where o.bucket = any ('{${buckets.map(({ id }) => id).join(',')}}')`,
  )
  for (;;) {
    const { rows } = await from.query<{ one: string }>('fetch 500 from objects_of_ayb')
    if (rows.length === 0) break
    yield rows.map(({ one }) => JSON.parse(one) as SourceObject)
  }
  await from.query('close objects_of_ayb')
}

const LISTED: readonly [string, string, string][] = [
  ['_ayb_api_keys', 'API keys', 'cannot work here: make new ones'],
  ['_ayb_user_mfa', 'second factors', 'are encrypted with the key of that server: these people enrol again'],
  ['_ayb_webhooks', 'webhooks', 'are made again with svc or the dashboard'],
  ['_ayb_job_schedules', 'schedules', 'name jobs of that server: make them again'],
  ['_ayb_oauth_clients', 'OAuth clients', 'register again: their secrets are hashes'],
  ['_ayb_edge_functions', 'edge functions', 'have no equal here'],
  ['_ayb_vault_secrets', 'secrets of the vault', 'are encrypted with the key of that server'],
  ['_ayb_tenants', 'tenants', 'have no equal here: organizations are'],
  ['_ayb_sites', 'sites', 'are deployed again'],
]

/** What comes along, what is listed above, and what a server keeps for its own work. */
const NOT_LISTED =
  /^_ayb_(users|oauth_accounts|storage_(objects|buckets)|apps|email_templates|.*(migrations|sessions|tokens?|codes?|links|resets|verifications?|consents|deliveries|jobs|queue|logs?|stats|messages|events|limits?|usage|refreshes|uploads|versions))$/

async function listItsTables(from: pg.Client, notes: Note[]): Promise<void> {
  for (const [table, what, why] of LISTED) {
    if (!(await hasTable(from, table))) continue
    const [row] = await readRows<{ count: number }>(from, `select count(*) as count from public.${table}`)
    if (row && row.count > 0) notes.push({ level: 'skipped', what: `${row.count} ${what}`, why })
  }
  const known = new Set(LISTED.map(([table]) => table))
  const tables = await readRows<{ name: string }>(
    from,
    `select tablename as name from pg_tables where schemaname = 'public' and tablename ~ '^_ayb_[a-z0-9_]+$' order by 1`,
  )
  for (const { name } of tables) {
    if (known.has(name) || NOT_LISTED.test(name)) continue
    const [row] = await readRows<{ count: number }>(from, `select count(*) as count from public.${name}`)
    if (row && row.count > 0)
      notes.push({ level: 'skipped', what: `${row.count} rows of ${name}`, why: 'have no equal here' })
  }
  notes.push({ level: 'changed', what: 'sessions and tokens', why: 'end: everybody signs in once' })
}
