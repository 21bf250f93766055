import type pg from 'pg'
import {
  type Catalogue,
  readCatalogue,
  type SourceTable,
  type SourceTrigger,
  tablesQuery,
  triggersQuery,
} from '../database/catalogue.ts'
import { type SchemaStep, stepsOf } from '../database/ddl.ts'
import { plannedPolicy, plannedTables } from '../database/planned.ts'
import { readRows } from '../database/source.ts'
import type { Note, Plan } from '../plan.ts'
import {
  listOthers,
  missingInBodies,
  readExtensions,
  readJobs,
  readWatched,
  type SourceExtension,
  type SourceJob,
  SUPABASE_ROLES,
  SUPABASE_SCOPE,
} from './extras.ts'
import { countObjects } from './objects.ts'
import { countUsers } from './people.ts'
import { readBuckets, type SourceBucket, storagePolicies } from './storage-schema.ts'

export type SupabasePlan = {
  plan: Plan
  catalogue: Catalogue
  authUsers: SourceTable
  authTriggers: SourceTrigger[]
  /** Whether a function of auth reads claims one by one, as before December 2021. */
  isEarly: boolean
  steps: SchemaStep[]
  storage: SchemaStep[]
  buckets: SourceBucket[]
  extensions: SourceExtension[]
  jobs: SourceJob[]
  watched: { schema: string; name: string }[]
}

/** Everything that is read before anything is written. */
export async function planSupabase(
  from: pg.Client,
  options: { shown: string; isApplied: boolean; hasFiles: boolean; isInPlace: boolean; notes: Note[] },
): Promise<SupabasePlan> {
  const { notes } = options
  const authUsers = await requireSupabase(from)
  const [early] = await readRows<{ found: boolean }>(
    from,
    `select exists (select from pg_proc p where p.pronamespace = 'auth'::regnamespace and p.proname in ('uid', 'role', 'email')
       and p.prosrc ~ 'request\\.jwt\\.claim\\.' and p.prosrc !~ 'request\\.jwt\\.claims') as found`,
  )
  const extensions = await readExtensions(from, options.isInPlace ? [] : notes)
  const catalogue = await readCatalogue(from, SUPABASE_SCOPE)
  const authTriggers = (
    await readRows<SourceTrigger>(from, triggersQuery(`n.nspname = 'auth' and c.relname = 'users'`))
  ).filter(({ functionSchema }) => functionSchema !== 'auth')
  const buckets = await readBuckets(from, notes)
  const { steps: storage, planned } = await storagePolicies(from, buckets, SUPABASE_ROLES, notes)
  const jobs = await readJobs(from, notes)
  const watched = await readWatched(from)
  const users = await countUsers(from, notes)
  const files = await countObjects(from, buckets, notes)
  const copied = withoutHooks(catalogue)
  const steps = options.isInPlace
    ? []
    : stepsOf(copied, { rewrite: (text) => text, roles: SUPABASE_ROLES, missing: () => undefined }, notes)
  if (!options.isInPlace) notes.push(...missingInBodies(catalogue), ...otherSchemas(catalogue))
  notes.push(...hooksOf(catalogue))
  if (!options.hasFiles && files.count > 0)
    notes.push({
      level: 'skipped',
      what: `${files.count} files`,
      why: 'their bytes are not in the database: give their place with --files',
    })
  await listOthers(from, catalogue.triggers, notes)
  const plan: Plan = {
    source: `supabase ${options.shown}`,
    apply: options.isApplied,
    tables: await plannedTables(from, catalogue.tables),
    policies: [...catalogue.policies.map(plannedPolicy), ...planned],
    users,
    files,
    notes,
  }
  return {
    plan,
    catalogue: copied,
    authUsers,
    authTriggers,
    isEarly: early?.found === true,
    steps,
    storage,
    buckets,
    extensions,
    jobs,
    watched,
  }
}

/** A clear sentence for a database of another product. */
async function requireSupabase(from: pg.Client): Promise<SourceTable> {
  const [users] = await readRows<SourceTable>(
    from,
    tablesQuery(`n.nspname = 'auth' and c.relname = 'users' and c.relkind in ('r', 'p')`),
  )
  const names = new Set(users?.columns.map(({ name }) => name))
  if (!users || !['id', 'email', 'encrypted_password', 'raw_user_meta_data'].every((name) => names.has(name)))
    throw new Error('this is no database of Supabase: it has no table auth.users as Supabase makes it')
  return users
}

const withoutHooks = (catalogue: Catalogue): Catalogue => ({
  ...catalogue,
  triggers: catalogue.triggers.filter(({ functionSchema }) => functionSchema !== 'supabase_functions'),
})

/** Functions that Supabase's server calls: claims that they add are missing until the hook here is one. */
const hooksOf = ({ grants }: Catalogue): Note[] =>
  grants
    .filter(
      ({ kind, on, grantee }) => kind === 'function' && grantee === 'supabase_auth_admin' && on.endsWith('(jsonb)'),
    )
    .map(({ on }) => ({
      level: 'warning',
      what: `function ${on}`,
      why: 'is an auth hook, which is not called here: see auth.hooks.token_claims, before_sign_up and before_sign_in',
    }))

const otherSchemas = ({ schemas }: Catalogue): Note[] =>
  schemas
    .filter(({ name }) => name !== 'public')
    .map(({ name }) => ({ level: 'warning', what: `schema ${name}`, why: 'is exposed when api.schemas names it' }))
