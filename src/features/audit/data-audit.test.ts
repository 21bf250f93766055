import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, spawnServer, startServer, type TestServer } from '../../../test/kit/kit.ts'
import { openConnection } from '../../db/protocol/driver.ts'

const TABLES = `
  create table notes (id int primary key, body text, api_token text);
  create table pairs (a int, b text, primary key (a, b));
  create table other (id int primary key);
  create schema shop; create table shop.notes (id int primary key)`

type Entry = Record<string, unknown>
const trail = async (server: TestServer, query: string): Promise<Entry[]> =>
  (await server.call(`GET /api/admin/audit?${query}`, { as: 'admin' })).body.items

/** Waits until the trail has as many entries as that; an extra entry shows in the next read. */
const entriesOf = (server: TestServer, query: string, count: number) =>
  eventually(async () => {
    const items = await trail(server, query)
    assert.equal(items.length, count)
    return items
  })

test('changes of every writer are in the trail, with what the row was and is, and no secret', async () => {
  const api = await startServer()
  await api.sql(TABLES)
  const audited = await startServer({
    on: api,
    config: { 'audit.tables': ['notes', 'public.pairs', 'missing'], 'api.schemas': ['public', 'shop'] },
  })
  const { token, user } = await audited.signUp('ana@x.test')
  const { body: made } = await audited.call('POST /api/auth/api-keys', { as: token, json: { name: 'k' } })
  const notes = (line: string, as: string | undefined, json?: unknown) =>
    audited.call(line as 'POST /', { ...(as && { as }), ...(json !== undefined && { json }) })
  assert.equal((await notes('POST /api/collections/notes', token, { id: 1, body: 'a', api_token: 'x1' })).status, 201)
  assert.equal((await notes('PATCH /api/collections/notes/1', made.key, { body: 'b' })).status, 200)
  assert.equal((await notes('DELETE /api/collections/notes/1', 'admin')).status, 204)
  await audited.sql(
    `insert into pairs values (1, 'x'); insert into other values (1); insert into shop.notes values (7)`,
  )
  // A process whose own configuration says nothing of the audit writes as well.
  assert.equal((await api.call('POST /api/collections/pairs', { as: token, json: { a: 2, b: 'y' } })).status, 201)

  const [removed, changed, created] = await entriesOf(audited, 'table=public.notes', 3)
  const { id, timestamp, ...rest } = created ?? {}
  const image = { id: 1, body: 'a', api_token: '***' }
  assert.deepEqual(rest, {
    actor: 'user',
    action: 'record.create',
    target: 'notes',
    user_id: user.id,
    table_name: 'notes',
    record_id: { id: 1 },
    operation: 'INSERT',
    new_values: image,
  })
  const [logged] = await audited.sql(`select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at
    from svc.changes where action = 'create' and table_name = 'notes' and schema_name = 'public'`)
  assert.deepEqual([typeof id, timestamp], ['string', logged.at])
  assert.deepEqual(
    [changed?.['user_id'], changed?.['api_key_id'], changed?.['old_values'], changed?.['new_values']],
    [user.id, made.apiKey.id, image, { ...image, body: 'b' }],
  )
  assert.deepEqual(
    [removed?.['actor'], removed?.['operation'], removed?.['old_values'], removed?.['new_values']],
    ['admin', 'DELETE', { ...image, body: 'b' }, undefined],
  )
  const pairs = await entriesOf(audited, 'table=pairs', 2)
  assert.deepEqual(
    pairs.map(({ record_id: key, actor }) => [key, actor]),
    [
      [{ a: 2, b: 'y' }, 'user'],
      [{ a: 1, b: 'x' }, 'admin'],
    ],
  )
  // A bare name means the table of every schema, and the entries name the schema.
  const [foreign] = await entriesOf(audited, 'table=shop.notes', 1)
  assert.deepEqual([foreign?.['target'], foreign?.['record_id']], ['shop.notes', { id: 7 }])
  assert.equal((await trail(audited, 'table=notes&operation=insert')).length, 2)
  assert.equal((await trail(audited, `user_id=${user.id}&action=record.update`)).length, 1)
  assert.deepEqual(await trail(audited, 'table=other'), [])
  const { warnings } = (await audited.call('GET /api/admin/status', { as: 'admin' })).body
  assert.ok(warnings.includes('audit.tables names tables that are not there: missing'))
  assert.ok(!JSON.stringify(await trail(audited, '')).includes('x1'))
})

test('with all tables audited, one that is made later is too; visitors are anonymous', async () => {
  const api = await startServer({ config: { 'audit.all_tables': true, 'api.anonymous': 'all' } })
  await api.sql('create table later (id int primary key)')
  await eventually(async () => {
    assert.deepEqual(await api.sql(`select from pg_trigger where tgname = 'svc_watch'`), [{}])
  })
  await api.sql('insert into later values (1)')
  assert.equal((await api.call('POST /api/collections/later', { json: { id: 2 } })).status, 201)
  const entries = await entriesOf(api, 'table=later', 2)
  assert.deepEqual(
    entries.map(({ actor }) => actor),
    ['anonymous', 'admin'],
  )
})

test('a table whose trigger could not be made is tried again', async () => {
  const first = await startServer()
  await first.sql(`${TABLES};
    create function refuse() returns event_trigger language plpgsql as $$ begin raise 'not now'; end $$;
    create event trigger refuse on ddl_command_start when tag in ('CREATE TRIGGER') execute function refuse()`)
  const api = await startServer({ on: first, config: { 'audit.tables': ['notes'] } })
  const watched = () => api.sql(`select from pg_trigger where tgname = 'svc_watch'`)
  assert.deepEqual(await watched(), [])
  await api.sql('drop event trigger refuse')
  await eventually(async () => assert.deepEqual(await watched(), [{}]))
  await api.sql(`insert into notes values (1, 'past the API')`)
  await entriesOf(api, 'table=notes', 1)
})

test('each change is audited once over all processes, and switching is an entry itself', async () => {
  const config = { 'audit.tables': ['notes'] }
  const first = await startServer()
  await first.sql(TABLES)
  assert.deepEqual(await trail(first, 'action=audit.settings'), [])
  const [a, b] = await Promise.all([startServer({ on: first, config }), startServer({ on: first, config })])
  const [on] = await entriesOf(a, 'action=audit.settings', 1)
  assert.deepEqual(
    [on?.['old_values'], on?.['new_values']],
    [
      { all_tables: false, tables: [] },
      { all_tables: false, tables: ['notes'] },
    ],
  )
  const { token: as } = await a.signUp('ana@x.test')
  await Promise.all(
    Array.from({ length: 60 }, (_, id) =>
      [a, b, first][id % 3]?.call('POST /api/collections/notes', { as, json: { id } }),
    ),
  )
  await entriesOf(a, 'table=notes', 60)
  // What is switched off leaves a trace, and what is committed then leaves none.
  const off = await startServer({ on: first })
  const [last] = await entriesOf(off, 'action=audit.settings', 2)
  assert.deepEqual(last?.['new_values'], { all_tables: false, tables: [] })
  await off.call('POST /api/collections/notes', { as, json: { id: 100 } })
  await startServer({ on: first, config })
  await off.call('POST /api/collections/notes', { as, json: { id: 101 } })
  const [newest] = await entriesOf(off, 'table=notes', 61)
  assert.deepEqual(newest?.['record_id'], { id: 101 })
})

test('kill -9 between a change and its entry loses nothing, even if the next start switches the audit off', async () => {
  const doomed = await spawnServer({ config: { 'audit.all_tables': true } })
  await doomed.sql(TABLES)
  const reader = await openConnection({ url: doomed.databaseUrl })
  // The process that holds this row writes the trail.
  await eventually(async () => {
    const held = await reader.query(`begin; select from svc.change_readers where name = 'audit' for update`)
    if ((held as unknown as { rowCount: number }[])[1]?.rowCount === 1) return
    await reader.query('rollback')
    throw new Error('the reader is not there yet')
  })
  const { token: as } = await doomed.signUp('ana@x.test')
  for (const id of [1, 2, 3]) {
    assert.equal((await doomed.call('POST /api/collections/notes', { as, json: { id } })).status, 201)
  }
  assert.deepEqual(await trail(doomed, 'table=notes'), [])
  await doomed.kill('SIGKILL')
  const next = await startServer({ on: doomed })
  await next.call('POST /api/collections/notes', { as, json: { id: 4 } })
  await reader.end()
  const entries = await entriesOf(next, 'table=notes', 3)
  assert.deepEqual(
    entries.map(({ record_id: key }) => (key as { id: number }).id),
    [3, 2, 1],
  )
})

test('entries go with their retention, however many there are', async () => {
  const api = await startServer({ config: { 'audit.retention_days': 30 } })
  await api.sql(`insert into svc.audit_log (at, actor, action)
    select now() - interval '31 days', 'admin', 'record.create' from generate_series(1, 12000)`)
  await api.sql(
    `insert into svc.audit_log (at, actor, action) values (now() - interval '29 days', 'admin', 'record.create')`,
  )
  assert.equal(await api.app.cleanups['audit_log_retention']?.(), 12_000)
  assert.equal((await trail(api, 'action=record.create')).length, 1)
})
