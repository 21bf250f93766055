import type pg from 'pg'
import { changeSchema } from '../../../db/setup/migrate.ts'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import type { SchemaStep } from '../database/ddl.ts'
import type { PlaceOfFiles } from '../database/file-source.ts'
import { finishTables, makeTables, tableExists } from '../database/make-schema.ts'
import { joinRole, prepareOwner, prepareRole, SUPABASE_HELPERS } from '../database/owner.ts'
import { bringUsers } from '../database/people.ts'
import { bringTable, countRows } from '../database/rows.ts'
import { bringFilesOf, hasMark, makeExtensions, markAs, rowProgress, type Target } from '../database/target.ts'
import { forgetLater } from '../plan.ts'
import { AUTH_FUNCTIONS, authUsersTable, mirrorStatements, REALTIME_FUNCTIONS } from './auth-schema.ts'
import { makeBuckets, makeSchedules } from './beside-tables.ts'
import { broadcasts } from './extras.ts'
import { currentObjects } from './objects.ts'
import { allUsers } from './people.ts'
import type { SupabasePlan } from './plan-supabase.ts'
import { STORAGE_FUNCTIONS, storageViews } from './storage-schema.ts'

const SOURCE = 'supabase'

/** Brings what is planned from a database of its own. Every part remembers what it has done, so that a run can go on. */
export async function copySupabase(
  target: Target,
  from: pg.Client,
  planned: SupabasePlan,
  files: PlaceOfFiles | undefined,
): Promise<Record<string, number>> {
  const { client, box } = target
  const { plan, catalogue } = planned
  await changeSchema(client, () => makeSchema(client, planned), forgetLater(plan.notes))
  const users = await bringUsers(
    allUsers(from),
    { source: SOURCE, client, box, keepRow: keeperOf(client, planned) },
    plan.notes,
  )
  let [rows, tables] = [0, 0]
  const progress = rowProgress(plan)
  const heard = (count: number): void => progress.add(count)
  for (const table of catalogue.tables) {
    if (table.kind === 'p' || !(await tableExists(client, table))) continue
    const isNew = !(await hasMark(client, SOURCE, 'rows', `${table.schema}.${table.name}`))
    const added = await bringTable({ source: SOURCE, target: client, from, heard }, table)
    rows += added
    if (isNew) tables++
    progress.fileDone()
    if (added > 0) await compareCounts(client, from, table)
  }
  progress.end()
  await changeSchema(client, () => finish(client, planned), forgetLater(plan.notes))
  const count = files ? await bringFilesOf(target, SOURCE, files, currentObjects(from, planned.buckets), plan) : 0
  return { tables, users, rows, files: count }
}

async function compareCounts(
  client: pg.Client,
  from: pg.Client,
  table: SupabasePlan['catalogue']['tables'][number],
): Promise<void> {
  const [wanted, got] = [await countRows(from, table), await countRows(client, table)]
  if (got < wanted) throw new Error(`${table.schema}.${table.name} has ${wanted} rows in Supabase, and ${got} came`)
}

async function makeSchema(client: pg.Client, planned: SupabasePlan): Promise<void> {
  if (await hasMark(client, SOURCE, 'step', 'schema')) return
  // One that migrations of --out made is the adoption's own.
  const { rowCount } = await client.query(
    `select from pg_catalog.pg_class c where c.oid = pg_catalog.to_regclass('auth.users') and pg_catalog.pg_get_userbyid(c.relowner) <> '${ADOPTED_OWNER}'`,
  )
  if (rowCount !== 0)
    throw new Error(
      'this database has a table auth.users already: svc adopt supabase --in-place is for a database of Supabase',
    )
  await prepareOwner(client, SUPABASE_HELPERS)
  for (const role of ['anon', 'authenticated']) await prepareRole(client, role)
  await prepareRole(client, 'service_role', true)
  await makeExtensions(client, planned.extensions, planned.plan.notes)
  await makeTables(
    client,
    {
      ...planned.catalogue,
      schemas: [...planned.catalogue.schemas, ...schemasOfSupabase(planned).map((name) => ({ name }))],
    },
    authSteps(planned).concat(planned.steps),
    planned.plan.notes,
  )
  await markAs(client, SOURCE, 'step', 'schema')
}

const step = (what: string, sql: string, more: Partial<SchemaStep> = {}): SchemaStep => ({
  by: 'owner',
  phase: 'before',
  what,
  sql,
  ...more,
})

/** Its own schemas of which a part is made here. */
export const schemasOfSupabase = ({ catalogue }: SupabasePlan): string[] => [
  'auth',
  'storage',
  ...(broadcasts(catalogue) ? ['realtime'] : []),
]

/** The parts of Supabase's own schemas that apps use. */
export function authSteps(planned: SupabasePlan): SchemaStep[] {
  const { authUsers, authTriggers, buckets } = planned
  const schemas = schemasOfSupabase(planned).join(', ')
  const mirror = mirrorStatements(authUsers.columns)
  const open = `anon, authenticated, service_role`
  return [
    step('auth.users', authUsersTable(authUsers.columns)),
    step('auth.users', 'alter table auth.users enable row level security'),
    ...AUTH_FUNCTIONS.map((sql) => step('functions of auth', sql)),
    ...STORAGE_FUNCTIONS.map((sql) => step('functions of storage', sql)),
    ...storageViews(buckets).map((sql) => step('views of storage', sql)),
    ...(broadcasts(planned.catalogue) ? REALTIME_FUNCTIONS : []).map((sql) => step('functions of realtime', sql)),
    step('schema auth', `grant usage on schema ${schemas} to ${open}`),
    step('functions', `grant execute on all functions in schema ${schemas} to ${open}`),
    step('views of storage', 'grant select on storage.objects to anon, authenticated', { level: 'closed' }),
    ...authTriggers.flatMap(({ name, text, state }) =>
      state === 'D'
        ? []
        : [
            step(`trigger ${name} of auth.users`, text.replace(/^CREATE TRIGGER/, 'CREATE OR REPLACE TRIGGER'), {
              phase: 'after',
            }),
          ],
    ),
    ...mirror.owner.map((sql) => step('rows of auth.users', sql)),
    ...mirror.server.map((sql) => step('rows of auth.users', sql, { by: 'server', phase: 'after' })),
  ]
}

/** A row without its secrets, as the role that owns the table. */
function keeperOf(client: pg.Client, { authUsers }: SupabasePlan): (row: string) => Promise<void> {
  const names = authUsers.columns
    .filter(({ generated }) => generated === '')
    .map(({ name }) => `"${name.replaceAll('"', '""')}"`)
  const text = `insert into auth.users (${names.join(', ')}) select ${names.map((name) => `r.${name}`).join(', ')}
    from pg_catalog.jsonb_populate_record(null::auth.users, $1::jsonb) r on conflict do nothing`
  return async (row) => {
    await client.query(`set local role ${ADOPTED_OWNER}`)
    await client.query(text, [row])
    await client.query('reset role')
  }
}

/** Rights, and what would have changed the rows on their way. */
async function finish(client: pg.Client, planned: SupabasePlan): Promise<void> {
  if (await hasMark(client, SOURCE, 'step', 'finish')) return
  const { plan, storage, buckets, jobs, watched } = planned
  await makeBuckets(client, buckets, plan.notes)
  const { rows } = await client.query<{ public: string }>(
    `select pg_catalog.has_schema_privilege('${ADOPTED_OWNER}', 'public', 'create')::text as public`,
  )
  if (rows[0]?.public === 'false') await client.query(`grant create on schema public to ${ADOPTED_OWNER}`)
  await finishTables(client, [...authSteps(planned), ...planned.steps, ...storage, ...watchSteps(watched)], plan.notes)
  await makeSchedules(client, jobs, { isInPlace: false }, plan.notes)
  await joinRole(client, 'svc_anon', 'anon')
  await joinRole(client, 'svc_authenticated', 'authenticated')
  await markAs(client, SOURCE, 'dialect', 'claims')
  await markAs(client, SOURCE, 'step', 'finish')
}

export const watchSteps = (watched: readonly { schema: string; name: string }[]): SchemaStep[] =>
  watched.map(({ schema, name }) =>
    step(
      `realtime of ${schema}.${name}`,
      `select svc.watch(pg_catalog.to_regclass('${`"${schema.replaceAll('"', '""')}"."${name.replaceAll('"', '""')}"`.replaceAll("'", "''")}'))`,
      {
        by: 'server',
        phase: 'after',
      },
    ),
  )
