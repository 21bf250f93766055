import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from '../../../test/kit/at-end.ts'
import { createEmptyDatabase } from '../../../test/kit/cluster.ts'
import { type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { openConnection } from '../protocol/driver.ts'

const APP = `
  create table notes (id int primary key, text text);
  insert into notes values (1, 'closed by a missing grant');
  create view all_notes as select * from notes;
  create function count_notes() returns bigint language sql security definer as 'select count(*) from public.notes';
  revoke execute on function count_notes() from public;
  create schema shop;
  create table shop.orders (id int primary key);
`
const SUPABASE = 'create schema auth; create table auth.users (id uuid primary key, email text);'
const ALL_YOUR_BASE = 'create table _ayb_users (id uuid primary key, email text);'

/** A database that no server has seen, with an app in it. */
async function made(...texts: string[]) {
  const { url: databaseUrl, drop } = await createEmptyDatabase()
  atEnd(drop)
  const client = await openConnection({ url: databaseUrl })
  for (const text of [...texts, APP]) await client.query(text)
  await client.end()
  return { databaseUrl }
}

const rightsOf = async (api: InProcessServer): Promise<string[]> =>
  (
    await api.sql(`
      select r.rolname || ' ' || p.privilege || ' ' || c.oid::regclass as one
      from pg_roles r, pg_class c, unnest(array['select', 'insert', 'update', 'delete']) p(privilege)
      where r.rolname in ('svc_anon', 'svc_authenticated') and c.relkind in ('r', 'v') and c.relnamespace::regnamespace::text in ('public', 'auth', 'shop', 'late')
        and has_table_privilege(r.oid, c.oid, p.privilege)
      union all select r.rolname || ' execute ' || f.oid::regprocedure from pg_roles r, pg_proc f
      where r.rolname in ('svc_anon', 'svc_authenticated') and f.proname = 'count_notes' and has_function_privilege(r.oid, f.oid, 'execute')
      union all select 'default ' || d.oid from pg_default_acl d where d.defaclacl::text ~ 'svc_anon|svc_authenticated'`)
  ).map(({ one }) => one)

const warningsOf = async (api: InProcessServer): Promise<string[]> =>
  ((await api.call('GET /api/admin/status', { as: 'admin' })).body.warnings ?? []).filter((one: string) =>
    one.includes('not adopted'),
  )
const loggedBy = (api: InProcessServer): string[] =>
  api.observations.map(({ message }): string => message).filter((one) => one.includes('not adopted'))

const saidOf = (product: string, sign: string): string =>
  `this is a database of ${product} (${sign}) that was not adopted: visitors and users were granted nothing; see svc adopt ${product.toLowerCase()} --in-place`

const REFUSED = [401, 403, 404]

async function requireClosed(api: InProcessServer, as: string | undefined): Promise<void> {
  const who = as === undefined ? {} : { as }
  for (const line of [
    'GET /api/collections/notes',
    'GET /api/collections/notes/1',
    'GET /api/collections/all_notes',
  ] as const) {
    assert.ok(REFUSED.includes((await api.call(line, who)).status), line)
  }
  assert.ok(REFUSED.includes((await api.call('POST /api/collections/notes', { ...who, json: { id: 2 } })).status))
  assert.ok(REFUSED.includes((await api.call('POST /api/rpc/count_notes', { ...who, json: {} })).status))
}

test('a start on a database of Supabase opens nothing, says so at every start, and no later start opens it', async () => {
  const base = await made(SUPABASE)
  const said = saidOf('Supabase', 'auth.users')
  const first = await startServer({ on: base })
  const { token } = await first.signUp('ann@example.com')
  for (const as of [undefined, token]) await requireClosed(first, as)
  assert.deepEqual([await rightsOf(first), await warningsOf(first), loggedBy(first)], [[], [said], [said]])
  await first.stop()

  // A schema that is new to us.
  const second = await startServer({ on: base, config: { 'api.schemas': ['public', 'shop'] } })
  assert.deepEqual([await rightsOf(second), await warningsOf(second), loggedBy(second)], [[], [said], [said]])
  // Without its sign, and adopted.
  await second.sql(`drop schema auth cascade; create schema late; create table late.orders (id int primary key);
    insert into svc.adopted (source, kind, key) values ('supabase', 'table', 'public.notes')`)
  await second.stop()
  const third = await startServer({ on: base, config: { 'api.schemas': ['public', 'shop', 'late'] } })
  assert.deepEqual([await rightsOf(third), await warningsOf(third), loggedBy(third)], [[], [], []])
})

test('a start on a database of AllYourBase opens nothing and says so', async () => {
  const api = await startServer({ on: await made(ALL_YOUR_BASE) })
  const said = saidOf('AllYourBase', '_ayb_ tables')
  await requireClosed(api, undefined)
  assert.deepEqual([await rightsOf(api), await warningsOf(api), loggedBy(api)], [[], [said], [said]])
})

test('what was granted before stays as it is, and is named', async () => {
  const first = await startServer()
  await first.sql('create table mine (id int primary key)')
  await first.sql(SUPABASE)
  await first.sql('create schema shop; create table shop.orders (id int primary key)')
  await first.stop()
  const second = await startServer({ on: first, config: { 'api.schemas': ['public', 'shop'] } })
  assert.equal((await second.call('GET /api/collections/mine')).status, 200)
  assert.match(
    (await warningsOf(second)).join(),
    /: nothing more is granted to visitors and users, who have had rights in public;/,
  )
  assert.deepEqual(
    (await rightsOf(second)).filter((one) => /shop|auth\.users/.test(one)),
    [],
  )
})

test('an ordinary database is granted as ever, but for what came with its own grants', async () => {
  const base = await made(`
    do $$ begin create role svc_adopted nologin; exception when duplicate_object or unique_violation then null; end $$;
    create table brought (id int primary key); alter table brought owner to svc_adopted;
    create function brought_count() returns bigint language sql security definer as 'select count(*) from public.brought';
    alter function brought_count() owner to svc_adopted; revoke execute on function brought_count() from public;
    create sequence "Odd; name"; create aggregate total(int) (sfunc = int4pl, stype = int)`)
  const api = await startServer({ on: base })
  const rights = await rightsOf(api)
  assert.ok(
    rights.includes('svc_anon select notes') && rights.includes('svc_anon execute count_notes()'),
    rights.join(),
  )
  assert.ok(!rights.some((one) => one.includes('brought')))
  assert.equal((await api.call('GET /api/collections/notes')).body.items[0].text, 'closed by a missing grant')
  const [brought] = await api.sql(`select has_function_privilege('svc_anon', 'brought_count()', 'execute') as open,
    has_sequence_privilege('svc_anon', 'public."Odd; name"', 'usage') as used`)
  assert.deepEqual({ ...brought }, { open: 'f', used: 't' })
})
