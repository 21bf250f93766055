import assert from 'node:assert/strict'
import { before, beforeEach, test } from 'node:test'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql(`
    create table plain (id int primary key, a text, b text);
    create table watched (id int primary key, a text);
    create table pairs (day date, name text, n int, primary key (day, name));
    select svc.watch('watched');
    create function touch(id int) returns void language sql as $$ insert into watched values (touch.id, 'by a function') $$;
  `)
})
beforeEach(() => api.sql('truncate plain, watched, pairs; truncate svc.change_log, svc.change_packs'))

const post = (table: string, json: object, requestId = 'request-1') =>
  api.call(`POST /api/collections/${table}`, {
    json,
    headers: { 'content-type': 'application/json', 'x-request-id': requestId },
  })
/** A new table or column is known to the server a moment later. */
const posted = (table: string, json: object): Promise<void> =>
  eventually(async () => assert.equal((await post(table, json)).status, 201))

test('an entry says which column had which name and number when it was written', async () => {
  await api.sql('create table shaped (id int primary key, a text, b text)')
  await posted('shaped', { id: 1, a: 'x', b: 'y' })
  await api.sql('alter table shaped rename a to renamed; alter table shaped drop b; alter table shaped add b int')
  await posted('shaped', { id: 2, renamed: 'x', b: 7 })
  const entries = await api.sql(`
    select c.record, s.columns, s.key_columns, c.table_oid = 'shaped'::regclass as is_same
    from svc.changes c join svc.change_shapes s on s.id = c.shape order by c.id`)
  assert.deepEqual(entries, [
    {
      record: '{"a": "x", "b": "y", "id": 1}',
      columns: '[[1, "id", "integer"], [2, "a", "text"], [3, "b", "text"]]',
      key_columns: '{id}',
      is_same: 't',
    },
    {
      record: '{"b": 7, "id": 2, "renamed": "x"}',
      columns: '[[1, "id", "integer"], [2, "renamed", "text"], [4, "b", "integer"]]',
      key_columns: '{id}',
      is_same: 't',
    },
  ])
})

test('a table that was made again is another table', async () => {
  await api.sql('create table again (id int primary key)')
  await posted('again', { id: 1 })
  await api.sql('drop table again; create table again (id int primary key)')
  await posted('again', { id: 2 })
  const entries = await api.sql(
    `select table_name, table_oid = 'again'::regclass as is_now from svc.changes order by id`,
  )
  assert.deepEqual(entries, [
    { table_name: 'again', is_now: 'f' },
    { table_name: 'again', is_now: 't' },
  ])
  assert.equal((await api.sql(`select from svc.changes_of('again'::regclass, '1')`)).length, 0)
})

test('what is told of a table is never told as if of another that has its name now', async () => {
  const { token } = await api.signUp('ana@x.test')
  await api.sql('create table swapped (id int primary key, v text); create table other (id int primary key, v text)')
  await posted('other', { id: 0, v: 'first' })
  const stream = await listenTo(api.url, { token, query: { tables: 'swapped,other' } })
  const start = stream.lastId()
  stream.close()
  await posted('swapped', { id: 1, v: 'of the former' })
  await posted('other', { id: 2, v: 'of the other' })
  await api.sql(`
    drop table swapped; alter table other rename to swapped;
    create table other (id int primary key, v text, added int)`)
  await posted('other', { id: 3, v: 'last' })
  // The server knows the tables of now.
  await eventually(async () => assert.equal((await api.call('GET /api/collections/other?filter=added=1')).status, 200))
  const again = await listenTo(api.url, { token, query: { tables: 'swapped,other', lastEventId: start } })
  await again.until(({ data }) => data?.record?.v === 'last')
  assert.deepEqual(
    again.changes().map(({ table, record }) => [table, record.v]),
    [
      ['swapped', 'of the other'],
      ['other', 'last'],
    ],
  )
  again.close()
})

test('after a dump was restored elsewhere, entries find their tables again by name', async () => {
  await post('plain', { id: 1 })
  await api.sql(`
    update svc.change_log set table_oid = 4711;
    update svc.change_shapes set table_oid = 4711 where table_name = 'plain';
    update svc.change_horizon set home = 'elsewhere'`)
  assert.deepEqual(await api.sql('select svc.adopt_changes() as adopted'), [{ adopted: 'f' }])
  assert.equal((await api.sql(`select from svc.changes_of('plain'::regclass, '1')`)).length, 1)
})

test('every entry names its request: of the API, of triggers, of functions', async () => {
  await post('plain', { id: 1 }, 'one')
  await api.call('POST /api/collections/plain/batch', {
    json: { operations: [{ method: 'update', id: 1, body: { a: 'x' } }] },
    headers: { 'content-type': 'application/json', 'x-request-id': 'two' },
  })
  await post('watched', { id: 1 }, 'three')
  await api.call('POST /api/rpc/touch', {
    json: { id: 2 },
    headers: { 'content-type': 'application/json', 'x-request-id': 'four' },
  })
  await api.call('POST /api/graphql', {
    json: { query: 'mutation { delete_plain(where: { id: { _eq: 1 } }) { affected_rows } }' },
    headers: { 'content-type': 'application/json', 'x-request-id': 'five' },
  })
  await api.sql(`insert into watched values (3, 'by psql')`)
  const entries = await api.sql('select action, table_name, request_id from svc.changes order by id')
  assert.deepEqual(entries, [
    { action: 'create', table_name: 'plain', request_id: 'one' },
    { action: 'update', table_name: 'plain', request_id: 'two' },
    { action: 'create', table_name: 'watched', request_id: 'three' },
    { action: 'create', table_name: 'watched', request_id: 'four' },
    { action: 'delete', table_name: 'plain', request_id: 'five' },
    { action: 'create', table_name: 'watched', request_id: null },
  ])
})

test('packed entries carry the same: shape, actor, request and keys', async () => {
  const rows = Array.from({ length: 3000 }, (_, id) => ({ id, a: `a${id}` }))
  const answer = await api.call('POST /api/collections/plain/import', {
    json: rows,
    headers: { 'content-type': 'application/json', 'x-request-id': 'import' },
  })
  assert.equal(answer.status, 200, answer.text)
  const [counts] = await api.sql(`
    select count(*)::text as changes, count(distinct entry) < 3000 as is_packed,
      count(*) filter (where request_id = 'import' and key = record ->> 'id' and pk = jsonb_build_object('id', record -> 'id')
        and table_name = 'plain' and table_oid = 'plain'::regclass and actor ->> 'kind' = 'anonymous')::text as good
    from svc.changes`)
  assert.deepEqual(counts, { changes: '3000', is_packed: 't', good: '3000' })
  const [found] = await api.sql(`select record ->> 'a' as a from svc.changes_of('plain'::regclass, '2999')`)
  assert.deepEqual(found, { a: 'a2999' })
})

test('the history of a row is found by the index, whichever way it was written', async () => {
  await post('pairs', { day: '2026-02-01', name: 'x', n: 1 })
  await api.call('PATCH /api/collections/pairs/2026-02-01,x', { json: { n: 2 } })
  await api.sql(`select svc.watch('pairs'); set datestyle = 'german'; update pairs set n = 3`)
  const key = `["2026-02-01", "x"]`
  const entries = await api.sql(
    `select action, record ->> 'n' as n from svc.changes_of('pairs'::regclass, '${key}') order by id`,
  )
  assert.deepEqual(entries, [
    { action: 'create', n: '1' },
    { action: 'update', n: '2' },
    { action: 'update', n: '3' },
  ])
  await api.sql(`insert into svc.change_log (shape, table_oid, action, key, record)
    select 1, 'plain'::regclass, 'c', n, '{}' from generate_series(1, 20000) n; analyze svc.change_log`)
  const plan = await api.sql(`explain select id from svc.change_log where table_oid = 'plain'::regclass and key = '77'`)
  assert.match(JSON.stringify(plan), /change_log_key/)
})

test('a key that is too long for an index is logged all the same', async () => {
  await api.sql('create table long (id text primary key)')
  const id = 'x'.repeat(20_000)
  await posted('long', { id })
  const [{ found }] = (await api.sql(
    `select count(*)::int as found from svc.changes_of('long'::regclass, svc.key_text('${id}'))`,
  )) as [{ found: number }]
  assert.equal(Number(found), 1)
})
