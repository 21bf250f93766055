import type pg from 'pg'
import { changeSchema } from '../../../db/setup/migrate.ts'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import type { PlaceOfFiles } from '../database/file-source.ts'
import { joinRole, prepareOwner, prepareRole, SUPABASE_HELPERS } from '../database/owner.ts'
import { bringUsers } from '../database/people.ts'
import { runSteps } from '../database/run-steps.ts'
import { withSavepoint } from '../database/savepoint.ts'
import { readInOneSnapshot, SAME_TEXTS } from '../database/source.ts'
import { bringFilesOf, hasMark, markAs, type Target } from '../database/target.ts'
import { forgetLater, type Note } from '../plan.ts'
import { AUTH_FUNCTIONS, mirrorStatements } from './auth-schema.ts'
import { makeBuckets, makeSchedules } from './beside-tables.ts'
import { watchSteps } from './copy.ts'
import { currentObjects } from './objects.ts'
import { allUsers } from './people.ts'
import type { SupabasePlan } from './plan-supabase.ts'

const SOURCE = 'supabase'

/** On the database that the server runs on: adds what is ours, and changes or drops nothing of Supabase's. */
export async function adoptInPlace(
  target: Target,
  from: pg.Client,
  planned: SupabasePlan,
  files: PlaceOfFiles | undefined,
): Promise<Record<string, number>> {
  const { client, box } = target
  // A transaction that has read auth.users would hold up the policy on it.
  await from.query('commit')
  await changeSchema(client, () => join(client, planned), forgetLater(planned.plan.notes))
  await readInOneSnapshot(from)
  const users = await bringUsers(
    allUsers(from),
    { source: SOURCE, client, box, keepRow: undefined },
    planned.plan.notes,
  )
  const count = files
    ? await bringFilesOf(target, SOURCE, files, currentObjects(from, planned.buckets), planned.plan)
    : 0
  return { tables: 0, users, rows: 0, files: count }
}

async function join(client: pg.Client, planned: SupabasePlan): Promise<void> {
  if (await hasMark(client, SOURCE, 'step', 'in place')) return
  const { plan, storage, buckets, jobs, watched, authUsers, isEarly } = planned
  await client.query(SAME_TEXTS, [true])
  await prepareOwner(client, SUPABASE_HELPERS)
  for (const role of ['anon', 'authenticated']) await prepareRole(client, role)
  await makeMissing(client)
  await keepRows(client, authUsers.columns, plan.notes)
  await makeBuckets(client, buckets, plan.notes)
  const { rows } = await client.query<{ oid: string }>(
    `select t.tgrelid::text as oid from pg_catalog.pg_trigger t where t.tgname = 'svc_watch'`,
  )
  const before = new Set(rows.map(({ oid }) => oid))
  await runSteps(client, [...storage, ...watchSteps(watched)], plan.notes)
  for (const { schema, name } of watched) {
    const found = await client.query<{ oid: string }>(
      `select c.oid::text as oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = $2`,
      [schema, name],
    )
    const oid = found.rows[0]?.oid
    if (oid !== undefined && !before.has(oid)) await markAs(client, SOURCE, 'watched', oid)
  }
  await makeSchedules(client, jobs, { isInPlace: true }, plan.notes)
  for (const [ours, role] of [
    ['svc_anon', 'anon'],
    ['svc_authenticated', 'authenticated'],
  ] as const)
    await joinRole(client, ours, role).then(() => markAs(client, SOURCE, 'member', ours))
  await markAs(client, SOURCE, 'dialect', isEarly ? 'named' : 'claims')
  await markAs(client, SOURCE, 'step', 'in place')
}

/** Those of the four that this version of auth lacks. */
async function makeMissing(client: pg.Client): Promise<void> {
  for (const sql of AUTH_FUNCTIONS) {
    const name = /function (auth\.\w+)\(\)/.exec(sql)?.[1] ?? ''
    const { rowCount } = await client.query(`select where pg_catalog.to_regprocedure($1) is not null`, [`${name}()`])
    if (rowCount !== 0) continue
    await client.query(sql)
    await client.query(`alter function ${name}() owner to ${ADOPTED_OWNER}`)
    await client.query(`grant execute on function ${name}() to anon, authenticated`)
    await markAs(client, SOURCE, 'function', name)
  }
}

/** Grants and a policy of ours, so that the rows of who registers here are written by the role of the adoption. */
async function keepRows(
  client: pg.Client,
  columns: Parameters<typeof mirrorStatements>[0],
  notes: Note[],
): Promise<void> {
  const mirror = mirrorStatements(columns)
  const failed = await withSavepoint(client, async () => {
    await client.query(`grant usage on schema auth to ${ADOPTED_OWNER}`)
    await client.query(`grant select, insert, update, delete on auth.users to ${ADOPTED_OWNER}`)
    await client.query(
      `create policy ${ADOPTED_OWNER} on auth.users to ${ADOPTED_OWNER} using (true) with check (true)`,
    )
    await client.query(`set local role ${ADOPTED_OWNER}`)
    for (const sql of mirror.owner) await client.query(sql)
    await client.query('reset role')
    for (const sql of mirror.server) await client.query(sql)
  })
  if (failed === undefined) return
  const isKept = await keepRowsAsServer(client, columns)
  notes.push({
    level: isKept ? 'changed' : 'warning',
    what: 'auth.users',
    why: isKept
      ? 'rows of who registers here are written as the role of the server, which owns the functions of the triggers there: it may write there, and not let others'
      : `who registers here has no row in it, because the server may not write there: ${failed.message}`,
  })
}

/** Of the role that writes: its own and superusers' functions, and those of Supabase, are all that would run. */
const NO_LESSER_CODE = `not exists (select from pg_catalog.pg_trigger t join pg_catalog.pg_proc p on p.oid = t.tgfoid join pg_catalog.pg_roles o on o.oid = p.proowner
  where t.tgrelid = 'auth.users'::regclass and not t.tgisinternal and not o.rolsuper and o.rolname not in (current_user, 'supabase_auth_admin'))`

/**
 * The role that Supabase gives out may write to auth.users, and not grant that. It writes itself where it runs no code of a
 * lesser role by that, which is looked at again with each row.
 */
async function keepRowsAsServer(client: pg.Client, columns: Parameters<typeof mirrorStatements>[0]): Promise<boolean> {
  const { rowCount } = await client.query(
    `select where pg_catalog.has_table_privilege('auth.users', 'select') and pg_catalog.has_table_privilege('auth.users', 'insert')
       and pg_catalog.has_table_privilege('auth.users', 'update') and pg_catalog.has_table_privilege('auth.users', 'delete')
       and (select rolbypassrls and not rolsuper from pg_catalog.pg_roles where rolname = current_user) and ${NO_LESSER_CODE}`,
  )
  if (rowCount === 0) return false
  const mirror = mirrorStatements(columns, NO_LESSER_CODE)
  for (const sql of [...mirror.owner, ...mirror.server]) await client.query(sql)
  return true
}
