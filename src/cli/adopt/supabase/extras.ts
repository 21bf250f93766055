import type pg from 'pg'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import { type Catalogue, policiesQuery, type SourcePolicy, type SourceTrigger } from '../database/catalogue.ts'
import { readableTables, readRows } from '../database/source.ts'
import type { Note } from '../plan.ts'

/** Schemas of Supabase's own programs and of extensions that it places there. */
const ITS_OWN = [
  ...[
    'auth',
    'storage',
    'realtime',
    '_realtime',
    'extensions',
    'graphql',
    'graphql_public',
    'vault',
    'pgsodium',
    'pgsodium_masks',
  ],
  ...[
    'pgbouncer',
    'supabase_functions',
    'supabase_migrations',
    'supabase_internal',
    '_supavisor',
    '_analytics',
    'cron',
    'net',
    'pgmq',
  ],
  ...['pgmq_public', 'pgtle', 'repack', 'tiger', 'tiger_data', 'topology', 'etl', 'dbdev'],
]
export const SUPABASE_SCOPE = {
  schemas: `n.nspname <> all ('{${ITS_OWN.join(',')}}') and n.nspname !~ '^svc(_|$)'`,
  tables: 'true',
  functions: `n.nspname = 'auth' and p.proname not in ('uid', 'role', 'email', 'jwt')`,
}
/** Whom policies and grants may name. */
export const SUPABASE_ROLES: ReadonlySet<string> = new Set(['anon', 'authenticated', 'service_role'])

/** Calls that say something and expect nothing. */
const BROADCASTS = /\brealtime\.(send|broadcast_changes|topic)\b/i

const NOT_HERE: readonly [RegExp, string][] = [
  [/\bnet\.http_/i, 'pg_net: webhooks and jobs of the type http call other servers here'],
  [/\bvault\./i, 'Vault: secrets belong into the configuration of what uses them'],
  [/\bcron\.(un)?schedule/i, 'pg_cron: schedules are made by svc or the dashboard here'],
  [/\bsupabase_functions\./i, 'database webhooks: webhooks are made by svc or the dashboard here'],
  [BROADCASTS, 'broadcasts of realtime, which nothing hears here: watched tables and live lists have the changes'],
  [/\brealtime\.(?!(send|broadcast_changes|topic)\b)/i, 'realtime: channels and live lists are routes here'],
  [/\bpgmq(_public)?\./i, 'pgmq: jobs are a queue here'],
  [/\bgraphql(_public)?\./i, 'pg_graphql: GraphQL is a route here'],
  [
    /\bauth\.(identities|sessions|refresh_tokens|mfa_\w+|sso_\w+|saml_\w+|one_time_tokens|flow_state|audit_log_entries)\b/i,
    'a table of auth that is not kept here',
  ],
  [/request\.(headers?|method|path|cookies?)\b/i, 'a setting of PostgREST that requests do not set here'],
]

const textsOf = ({ functions, views, policies }: Catalogue): { what: string; text: string }[] => [
  ...functions.map(({ schema, signature, body }) => ({ what: `function ${schema}.${signature}`, text: body })),
  ...views.map(({ schema, name, text }) => ({ what: `view ${schema}.${name}`, text })),
  ...policies.map((one) => ({
    what: `policy ${one.name} of ${one.schema}.${one.table}`,
    text: `${one.using} ${one.check}`,
  })),
]

export const broadcasts = (catalogue: Catalogue): boolean =>
  textsOf(catalogue).some(({ text }) => BROADCASTS.test(text))

/** Bodies are read when they run: what they would miss then is said now. */
export const missingInBodies = (catalogue: Catalogue): Note[] =>
  textsOf(catalogue).flatMap(({ what, text }) =>
    NOT_HERE.filter(([pattern]) => pattern.test(text)).map(
      ([, why]): Note => ({ level: 'warning', what, why: `it uses ${why}` }),
    ),
  )

/** Extensions that have no equal, or whose work something here does. */
const EXTENSIONS: ReadonlyMap<string, string> = new Map([
  ['pg_graphql', 'GraphQL is a route of the server'],
  ['pg_net', 'webhooks and jobs of the type http call other servers here'],
  ['pg_cron', 'its jobs become schedules'],
  ['supabase_vault', 'secrets belong into the configuration of what uses them'],
  ['pgsodium', 'has no equal here'],
  ['pgmq', 'jobs are a queue here'],
  ['wrappers', 'has no equal here'],
])
/** Of no use without their server. */
const SILENT = new Set([
  'plpgsql',
  'pg_stat_statements',
  'supautils',
  'pg_plan_filter',
  'safeupdate',
  'pg_tle',
  'pgaudit',
])

export type SourceExtension = { name: string; schema: string }

export async function readExtensions(from: pg.Client, notes: Note[]): Promise<SourceExtension[]> {
  const all = await readRows<SourceExtension>(
    from,
    `select e.extname as name, n.nspname as schema from pg_extension e join pg_namespace n on n.oid = e.extnamespace order by 1`,
  )
  for (const { name } of all) {
    const why = EXTENSIONS.get(name)
    if (why !== undefined) notes.push({ level: 'skipped', what: `extension ${name}`, why })
  }
  return all.filter(({ name }) => !EXTENSIONS.has(name) && !SILENT.has(name))
}

export type SourceJob = { name: string; expression: string; command: string; role: string; isActive: boolean }

export async function readJobs(from: pg.Client, notes: Note[]): Promise<SourceJob[]> {
  if (!(await readableTables(from, ['cron.job'])).has('cron.job')) return []
  const jobs = await readRows<SourceJob>(
    from,
    `select coalesce(j ->> 'jobname', 'job ' || (j ->> 'jobid')) as name, j ->> 'schedule' as expression, j ->> 'command' as command,
       coalesce(j ->> 'username', '') as role, coalesce((j ->> 'active')::boolean, true) as "isActive"
     from (select to_jsonb(x) as j from cron.job x) x order by (j ->> 'jobid')::bigint`,
  )
  return jobs.filter(({ name, command, expression }) => {
    const missing = NOT_HERE.find(([pattern]) => pattern.test(command))
    const why = missing
      ? `its command uses ${missing[1]}`
      : /^\s*(vacuum|create\s+database|reindex|cluster)\b/i.test(command)
        ? 'its command cannot run in a function'
        : /second|\$/.test(expression)
          ? `${expression} is no expression of cron`
          : undefined
    if (why !== undefined) notes.push({ level: 'skipped', what: `cron job ${name}`, why })
    return why === undefined
  })
}

/** Tables of the publication for realtime: their changes are logged for every writer. */
export async function readWatched(from: pg.Client): Promise<{ schema: string; name: string }[]> {
  return readRows(
    from,
    `select distinct c.relname as name, n.nspname as schema from pg_publication p
     join lateral pg_get_publication_tables(p.pubname) t on true join pg_class c on c.oid = t.relid join pg_namespace n on n.oid = c.relnamespace
     where p.pubname = 'supabase_realtime' and ${SUPABASE_SCOPE.schemas} order by 2, 1`,
  )
}

/** Tables of Supabase's own programs whose rows have no equal. */
const LISTED: readonly (readonly [table: string, what: string, why: string])[] = [
  ['vault.secrets', 'secrets of Vault', 'are not read: put them where they are used'],
  ['auth.saml_providers', 'providers of SAML', 'have no equal here'],
  [
    'auth.custom_oauth_providers',
    'sign-in providers of your own',
    'are configuration here: set them under the same name',
  ],
  ['auth.oauth_clients', 'OAuth clients', 'register again: their secrets are hashes'],
  ['auth.webauthn_credentials', 'passkeys', 'are bound to the old address: these people enrol again'],
  ['storage.buckets_analytics', 'analytics buckets', 'have no equal here'],
  ['storage.buckets_vectors', 'vector buckets', 'have no equal here: vectors are columns'],
  ['storage.s3_multipart_uploads', 'unfinished uploads', 'are begun again'],
]

/** What Supabase has besides tables, policies, users and files. */
export async function listOthers(from: pg.Client, triggers: readonly SourceTrigger[], notes: Note[]): Promise<void> {
  const there = await readableTables(
    from,
    LISTED.map(([table]) => table),
  )
  for (const [table, what, why] of LISTED) {
    if (!there.has(table)) continue
    const [rows] = await readRows<{ count: number }>(from, `select count(*) as count from ${table}`)
    if (rows && rows.count > 0) notes.push({ level: 'skipped', what: `${rows.count} ${what}`, why })
  }
  const its = await readRows<SourcePolicy>(
    from,
    policiesQuery(`n.nspname in ('auth', 'realtime') or (n.nspname = 'storage' and c.relname <> 'objects')`),
  )
  for (const { schema, table, name } of its)
    if (name !== ADOPTED_OWNER)
      notes.push({
        level: 'closed',
        what: `policy ${name} of ${schema}.${table}`,
        why: 'is on a table that no request uses here',
      })
  for (const { schema, table, name, functionSchema } of triggers)
    if (functionSchema === 'supabase_functions')
      notes.push({
        level: 'skipped',
        what: `webhook ${name} of ${schema}.${table}`,
        why: 'is made again with svc or the dashboard',
      })
  notes.push({
    level: 'skipped',
    what: 'edge functions and the settings of the project',
    why: 'are not in the database: sign-in providers, mail templates and keys are configuration here',
  })
  notes.push({
    level: 'changed',
    what: 'sessions, keys and tokens',
    why: 'end: everybody signs in once, and apps get new keys',
  })
}
