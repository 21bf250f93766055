import assert from 'node:assert/strict'
import { before, beforeEach, test } from 'node:test'
import { withoutVirtualColumns } from '../../../test/kit/cluster.ts'
import { eventually, type InProcessServer, type SignedUp, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
let ana: SignedUp
before(async () => {
  api = await startServer()
  ana = await api.signUp('ana@x.test')
  await api.sql(`
    create table authors (id int generated always as identity primary key, name text, shout text generated always as (upper(name)) stored);
    create table posts (id int primary key, author int references authors on delete cascade, title text unique, price numeric(30, 10));
    create table tags (post int references posts on delete cascade, tag text, at timestamptz default now(), primary key (post, tag));
    create table texts (id uuid primary key default gen_random_uuid(), post int references posts on delete set null, body json, span interval);
    create table sums (post int primary key references posts on delete cascade deferrable initially deferred, n int not null default 0);
    create table plain (id int primary key, v text);
    create table counted (n int);
    insert into counted values (0);
    create function count_it() returns trigger language plpgsql as $$ begin update counted set n = n + 1; return null; end $$;
    create trigger counted after insert or update or delete on posts for each statement execute function count_it();
    create function fill(many int) returns void language plpgsql as $$ begin
      insert into authors (name) select 'author ' || i from generate_series(1, many) i;
      insert into posts select i, i, 'post ' || i, i / 3.0 from generate_series(1, many) i;
      insert into tags select i, 'tag', now() from generate_series(1, many) i;
      insert into texts (post, body, span) select i, '{"b":  1}', interval '1 month 2 days 03:04:05.678' from generate_series(1, many) i;
      insert into sums select i, i from generate_series(1, many) i; end $$;
    create function stir() returns void language plpgsql as $$ begin
      update posts set title = title || '!', price = price * 2 where id % 2 = 0;
      delete from authors where id % 5 = 0;
      update sums set n = n + 1; update texts set span = span * 2;
      insert into authors (name) select 'new ' || i from generate_series(1, 20) i;
      update tags set tag = 'other' where post % 3 = 0; end $$;
    select svc.watch(t::regclass) from unnest(array['authors', 'posts', 'tags', 'texts', 'sums']) t`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/plain')).status, 200))
})
beforeEach(async () => {
  await api.sql('truncate authors restart identity cascade; truncate posts, tags, texts, sums, plain cascade')
  await api.sql('delete from svc.change_log')
})

const undo = (json: object) => api.call('POST /api/admin/undo', { as: 'admin', json })
const state = () =>
  api.sql(`select (select json_agg(a order by id) from authors a)::text as authors, (select json_agg(p order by id) from posts p)::text as posts,
    (select json_agg(t order by post, tag) from tags t)::text as tags, (select json_agg(t::text order by id) from texts t)::text as texts,
    (select json_agg(s order by post) from sums s)::text as sums, (select json_agg(p order by id) from plain p)::text as plain`)
const named = (id: string) => ({ headers: { 'x-request-id': id } })

test('a request that changed a thousand rows of five tables is undone, and so is its undo', async () => {
  await api.sql('select fill(200)')
  const before = await state()
  const { status } = await api.call('POST /api/rpc/stir', { as: ana.token, ...named('stirred') })
  assert.equal(status, 204)
  const after = await state()
  assert.notDeepEqual(after, before)
  const [{ n: triggered }] = await api.sql('select n from counted')

  const tried = await undo({ request_id: 'stirred', dry_run: true })
  assert.equal(tried.status, 200, tried.text.slice(0, 500))
  assert.ok(tried.body.undone.length > 500, `${tried.body.undone.length}`)
  assert.equal(tried.body.transaction, null)
  assert.deepEqual(await state(), after)

  const done = await undo({ request_id: 'stirred' })
  assert.deepEqual([done.status, done.body.undone], [200, tried.body.undone])
  assert.deepEqual(await state(), before)
  assert.deepEqual(await api.sql('select n from counted'), [{ n: triggered }], 'triggers of others did not run')

  const { body: log } = await api.call(`GET /api/admin/changes?transaction=${done.body.transaction}&perPage=1`, {
    as: 'admin',
  })
  assert.match(String(log.items[0].undoes), /^\d+$/)
  assert.equal(log.items[0].actor.kind, 'admin')
  assert.equal((await undo({ transaction: done.body.transaction })).status, 200)
  assert.deepEqual(await state(), after)
})

test('what the API wrote to tables that are not watched is undone and logged', async () => {
  const operations = [
    { method: 'create', body: { id: 1, v: 'a' } },
    { method: 'create', body: { id: 2, v: 'b' } },
    { method: 'update', id: 1, body: { v: 'c' } },
    { method: 'delete', id: 2 },
  ]
  await api.call('POST /api/collections/plain/batch', { json: { operations }, ...named('batch') })
  const before = await state()
  const { status, body } = await undo({ request_id: 'batch' })
  assert.deepEqual(
    [status, body.undone.map(({ action }: { action: string }) => action)],
    [200, ['create', 'update', 'delete', 'delete']],
  )
  assert.deepEqual(await api.sql('select from plain'), [])
  assert.equal((await undo({ transaction: body.transaction })).status, 200)
  assert.deepEqual(await state(), before)
})

test('a row is undone whatever became of what is computed of it', { skip: withoutVirtualColumns }, async () => {
  await api.sql(`create table lines (id int primary key, body text, loud text generated always as (upper(body)));
    select svc.watch('lines')`)
  const write = async (call: `${'POST' | 'PATCH'} /${string}`, id: string, body: string) => {
    const { status } = await api.call(call, { as: 'admin', json: { id: 1, body }, ...named(id) })
    assert.ok(status < 300)
  }
  await eventually(() => write('POST /api/collections/lines', 'made', 'a'))
  await write('PATCH /api/collections/lines/1', 'first', 'b')
  assert.equal((await undo({ request_id: 'first' })).status, 200)
  assert.deepEqual(await api.sql('select body, loud from lines'), [{ body: 'a', loud: 'A' }])
  await write('PATCH /api/collections/lines/1', 'second', 'c')
  // As it was logged before the server computed such columns.
  await api.sql(`update svc.change_log set record = (record::jsonb || '{"loud": null}')::json,
    old_record = (old_record::jsonb || '{"loud": null}')::json where table_oid = 'lines'::regclass`)
  assert.equal((await undo({ request_id: 'second' })).status, 200)
  await write('PATCH /api/collections/lines/1', 'third', 'd')
  await api.sql('alter table lines alter loud set expression as (body || body)')
  assert.equal((await undo({ request_id: 'third' })).status, 200)
  assert.deepEqual(await api.sql('select body, loud from lines'), [{ body: 'a', loud: 'aa' }])
  assert.equal((await undo({ request_id: 'made', force: true })).status, 200)
  assert.deepEqual(await api.sql('select from lines'), [])
})

test('a row that has changed since is a conflict, A to B to A is none, and force overwrites', async () => {
  await api.sql(`insert into plain values (1, 'a'), (2, 'a'), (3, 'a')`)
  for (const id of [1, 2, 3]) {
    const made = await api.call(`PATCH /api/collections/plain/${id}`, { json: { v: 'b' }, ...named(`patch-${id}`) })
    assert.equal(made.status, 200)
  }
  await api.sql(`update plain set v = 'c' where id = 1; update plain set v = 'c' where id = 2; update plain set v = 'b' where id = 2;
    delete from plain where id = 3`)
  const { status, body } = await undo({ request_id: 'patch-1' })
  assert.deepEqual([status, body.error], [409, 'undo_conflict'])
  assert.equal(body.conflicts.length, 1)
  const [conflict] = body.conflicts
  assert.deepEqual([conflict.table, conflict.key, conflict.message], ['plain', 1, 'the row has changed since'])
  assert.ok('changed_at' in conflict && 'by' in conflict)
  assert.equal((await undo({ request_id: 'patch-2' })).status, 200)
  assert.equal((await undo({ request_id: 'patch-3' })).body.conflicts[0].message, 'the row is gone')
  assert.deepEqual(await api.sql('select id, v from plain order by id'), [
    { id: '1', v: 'c' },
    { id: '2', v: 'a' },
  ])
  assert.equal((await undo({ request_id: 'patch-1', force: true })).status, 200)
  assert.deepEqual(await api.sql('select v from plain where id = 1'), [{ v: 'a' }])
})

test('no foreign key is left broken, forced or not', async () => {
  await api.sql('select fill(2)')
  await api.call('POST /api/collections/posts', { as: ana.token, json: { id: 9, author: 1 }, ...named('made') })
  await api.sql(`insert into tags values (9, 'since')`)
  for (const force of [false, true]) {
    const { status, body } = await undo({ request_id: 'made', force })
    assert.equal(status, 409, `force ${force}`)
    assert.match(body.conflicts[0].message, /tags_post_fkey/)
  }
  assert.equal((await api.sql(`select from tags where post = 9`)).length, 1)
  const [text] = await api.sql('select id from texts where post = 2')
  await api.call(`DELETE /api/collections/texts/${text.id}`, named('gone'))
  await api.sql('delete from posts where id = 2')
  for (const force of [false, true]) {
    const orphan = await undo({ request_id: 'gone', force })
    assert.match(orphan.body.conflicts[0].message, /texts_post_fkey/)
  }
})

test('rows that refer to accounts are put back, unless the account is gone', async () => {
  await api.sql('create table owned (id int primary key, title text, owner uuid references svc.users)')
  const ben = await api.signUp('ben@x.test')
  await api.sql("insert into owned values (1, 'a', $1)", [ben.user.id])
  const change = await api.call('PATCH /api/collections/owned/1', {
    as: 'admin',
    json: { title: 'b', owner: ana.user.id },
  })
  const undo = { request_id: change.headers.get('x-request-id') }
  assert.equal((await api.call('POST /api/admin/undo', { as: 'admin', json: { ...undo, dry_run: true } })).status, 200)
  await api.sql('delete from svc.users where id = $1', [ben.user.id])
  assert.equal((await api.call('POST /api/admin/undo', { as: 'admin', json: undo })).status, 409)
  await api.sql('drop table owned')
})

test('a value that was taken since is a conflict with the database’s words', async () => {
  await api.sql('select fill(1)')
  await api.call('PATCH /api/collections/posts/1', { as: ana.token, json: { title: 'new' }, ...named('renamed') })
  await api.sql(`insert into posts (id, author, title) values (7, 1, 'post 1')`)
  const { status, body } = await undo({ request_id: 'renamed' })
  assert.equal(status, 409)
  assert.match(body.conflicts[0].message, /duplicate key value/)
})

test('renamed columns are followed, and columns made later keep their values', async () => {
  await api.sql('create table shifts (id int primary key, a text, b text)')
  await eventually(async () =>
    assert.equal((await api.call('POST /api/collections/shifts', { json: { id: 1, a: 'a', b: 'b' } })).status, 201),
  )
  await api.call('PATCH /api/collections/shifts/1', { json: { a: 'x', b: 'y' }, ...named('shifted') })
  await api.sql(
    `alter table shifts rename a to z; alter table shifts drop b; alter table shifts add b text default 'new'`,
  )
  const { status, text } = await undo({ request_id: 'shifted' })
  assert.equal(status, 200, text)
  assert.deepEqual(await api.sql('select * from shifts'), [{ id: '1', z: 'a', b: 'new' }])
})

test('changes are named in one way, and a request id of several transactions by one of them', async () => {
  for (const json of [
    {},
    { user: ana.user.id },
    { user: ana.user.id, from: '2020-01-01' },
    { request_id: '' },
    { request_id: 'a', transaction: '1' },
    { transaction: 'x' },
    { changes: [] },
    { changes: ['x'] },
  ]) {
    assert.equal((await undo(json)).status, 400, JSON.stringify(json))
  }
  assert.equal((await undo({ request_id: 'never' })).status, 404)
  for (const id of [1, 2]) await api.call('POST /api/collections/plain', { json: { id, v: 'x' }, ...named('twice') })
  const { status, body } = await undo({ request_id: 'twice' })
  assert.deepEqual([status, body.transactions.length], [409, 2])
  assert.equal((await undo({ transaction: body.transactions[0] })).status, 200)
  await api.call('POST /api/collections/plain', { as: ana.token, json: { id: 5, v: 'x' } })
  const [from, to] = [new Date(Date.now() - 60_000), new Date(Date.now() + 60_000)].map((time) => time.toJSON())
  const byUser = await undo({ user: ana.user.id, from, to })
  assert.deepEqual(byUser.body.undone, [{ table: 'plain', key: 5, action: 'delete' }])
  assert.equal((await api.call('POST /api/admin/undo', { as: ana.token, json: { transaction: '1' } })).status, 401)
})

test('beside writers an undo is done or refused, never half', async () => {
  await api.sql(`insert into plain select i, 'a' from generate_series(1, 40) i`)
  for (let round = 0; round < 5; round++) {
    const operations = Array.from({ length: 40 }, (_, i) => ({ method: 'update', id: i + 1, body: { v: `r${round}` } }))
    const before = await api.sql('select v from plain where id <= 20 order by id')
    await api.call('POST /api/collections/plain/batch', { json: { operations }, ...named(`race-${round}`) })
    const writer = api.sql(`update plain set v = 'w${round}' where id > 20`)
    const { status } = await undo({ request_id: `race-${round}` })
    await writer
    const after = await api.sql('select v from plain where id <= 20 order by id')
    if (status === 200) assert.deepEqual(after, before)
    else assert.deepEqual([status, new Set(after.map(({ v }) => v))], [409, new Set([`r${round}`])])
  }
})

test('the login for undo is closed afterwards and cannot do more than write', async () => {
  const roles =
    await api.sql(`select rolcanlogin, rolsuper, rolcreaterole, rolbypassrls from pg_roles where rolname ~ '^svc_undo_'
    and rolname = 'svc_undo_' || (select oid from pg_database where datname = current_database())`)
  assert.deepEqual(roles, [{ rolcanlogin: 'f', rolsuper: 'f', rolcreaterole: 'f', rolbypassrls: 't' }])
})
