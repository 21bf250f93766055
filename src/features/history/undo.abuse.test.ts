import assert from 'node:assert/strict'
import { before, beforeEach, test } from 'node:test'
import { postgresMajor, withoutVirtualColumns } from '../../../test/kit/cluster.ts'
import { eventually, type InProcessServer, type SignedUp, startServer } from '../../../test/kit/kit.ts'
import { openConnection } from '../../db/protocol/driver.ts'

const withoutPeriods = postgresMajor < 18 && `PostgreSQL ${postgresMajor} has no keys of periods`

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

test('a value that a deferrable constraint keeps to one row is a conflict when it was taken since', async () => {
  await api.sql(`create extension if not exists btree_gist;
    create table named (id int primary key, slug text unique deferrable initially deferred);
    create table marked (id int primary key, slug text, tag text, unique (slug, tag) deferrable initially immediate);
    create table numbered (id int primary key deferrable initially deferred, v text);
    create table booked (id int primary key, room int, span int4range,
      exclude using gist (room with =, span with &&) where (room > 0) deferrable initially deferred);
    create table parted (id int, part int, slug text, primary key (id, part)) partition by list (part);
    create table parted_1 partition of parted for values in (1);
    alter table parted_1 add unique (slug) deferrable`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/parted')).status, 200))
  const cases = [
    ['named', '1', { id: 1, slug: 'a' }, { id: 2, slug: 'a' }],
    ['marked', '1', { id: 1, slug: 'a', tag: 'x' }, { id: 2, slug: 'a', tag: 'x' }],
    ['booked', '1', { id: 1, room: 1, span: '[1,5)' }, { id: 2, room: 1, span: '[4,9)' }],
    ['parted', '1,1', { id: 1, part: 1, slug: 'a' }, { id: 2, part: 1, slug: 'a' }],
  ] as const
  for (const [table, key, row, taken] of cases) {
    await api.call(`POST /api/collections/${table}`, { json: row })
    assert.equal((await api.call(`DELETE /api/collections/${table}/${key}`, named(`gone-${table}`))).status, 204)
    assert.equal((await api.call(`POST /api/collections/${table}`, { json: taken })).status, 201)
    for (const more of [{ dry_run: true }, {}, { force: true }]) {
      const { status, body } = await undo({ request_id: `gone-${table}`, ...more })
      assert.deepEqual([status, body.conflicts?.length], [409, 1], `${table} ${JSON.stringify(body)}`)
      assert.match(body.conflicts[0].message, /^another row conflicts with it: \w+$/)
    }
    assert.equal((await api.sql(`select from ${table}`)).length, 1)
  }
  // What is null, or is not covered, conflicts with nothing.
  await api.sql('delete from marked; delete from booked')
  for (const [table, row] of [
    ['marked', { id: 3, slug: 'a' }],
    ['booked', { id: 3, room: -1, span: '[1,5)' }],
  ] as const) {
    await api.call(`POST /api/collections/${table}`, { json: row })
    await api.call(`DELETE /api/collections/${table}/3`, named(`free-${table}`))
    await api.call(`POST /api/collections/${table}`, { json: { ...row, id: 4 } })
    assert.equal((await undo({ request_id: `free-${table}` })).status, 200)
  }
  // Values that change places.
  await api.sql(`delete from named; insert into named values (1, 'a'), (2, 'b'); select svc.watch('named')`)
  await api.sql(
    `begin; set local svc.request_id = 'swapped'; update named set slug = case slug when 'a' then 'b' else 'a' end; commit`,
  )
  assert.equal((await undo({ request_id: 'swapped' })).status, 200)
  assert.deepEqual(await api.sql('select slug from named order by id'), [{ slug: 'a' }, { slug: 'b' }])
})

test('an undo that finds rows locked gives up once, says so and keeps nobody waiting for each of them', async () => {
  await api.sql(`create table held (id int primary key); select svc.watch('held')`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/held')).status, 200))
  const headers = { 'content-type': 'text/csv', 'x-request-id': 'held-rows' }
  const body = 'id\n1\n2\n3\n'
  assert.equal((await api.call('POST /api/collections/held/import', { as: 'admin', headers, body })).status, 200)
  const holder = await openConnection({ url: api.databaseUrl })
  await holder.query('begin')
  await holder.query('select from held for update')
  const undo = () => api.call('POST /api/admin/undo', { as: 'admin', json: { request_id: 'held-rows' } })
  const refused = await undo()
  assert.deepEqual([refused.status, refused.body.error], [503, 'transaction_conflict'], refused.text)
  await holder.query('rollback')
  await holder.end()
  assert.equal((await undo()).status, 200)
  assert.deepEqual(await api.sql('select from held'), [])
})

test('beside writers an undo keeps deferrable constraints', async () => {
  await api.sql('create table slugs (id int primary key, slug text unique deferrable initially deferred)')
  await eventually(async () => assert.equal((await api.call('GET /api/collections/slugs')).status, 200))
  await api.call('POST /api/collections/slugs', { json: { id: 1, slug: 'a' } })
  await api.call('DELETE /api/collections/slugs/1', named('unslugged'))
  const writer = await openConnection({ url: api.databaseUrl })
  await writer.query(`begin; insert into slugs values (2, 'a')`)
  const undoing = undo({ request_id: 'unslugged' })
  await eventually(async () =>
    assert.equal((await api.sql(`select from pg_locks where not granted and relation = 'slugs'::regclass`)).length, 1),
  )
  await writer.query('commit')
  await writer.end()
  assert.equal((await undoing).status, 409)
  assert.deepEqual(await api.sql('select id from slugs'), [{ id: '2' }])
})

test('foreign keys are checked as the database checks them', async () => {
  await api.sql(`create extension if not exists citext;
    create collation any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    create table words (word citext primary key);
    create table uses (id int primary key, word citext references words);
    create table names (name text collate any_case primary key);
    create table calls (id int primary key, name text collate any_case references names);
    create table codes (code text collate "C" primary key);
    create table plates (id int primary key, code text collate "POSIX" references codes);
    insert into words values ('AB'); insert into names values ('AB'); insert into codes values ('ab')`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/plates')).status, 200))
  for (const [parents, children, column] of [
    ['words', 'uses', 'word'],
    ['names', 'calls', 'name'],
    ['codes', 'plates', 'code'],
  ] as const) {
    await api.call(`POST /api/collections/${children}`, { json: { id: 1, [column]: 'ab' } })
    await api.call(`DELETE /api/collections/${children}/1`, named(`gone-${children}`))
    const back = await undo({ request_id: `gone-${children}` })
    assert.equal(back.status, 200, back.text)
    await api.call(`POST /api/collections/${parents}`, {
      json: { [column]: parents === 'codes' ? 'cd' : 'CD' },
      ...named(`made-${parents}`),
    })
    await api.sql(`insert into ${children} values (2, 'cd')`)
    const orphan = await undo({ request_id: `made-${parents}`, force: true })
    assert.match(orphan.body.conflicts?.[0].message, /rows refer to it/, orphan.text)
    await api.sql(`delete from ${children} where id = 2`)
    assert.equal((await undo({ request_id: `made-${parents}` })).status, 200)
  }
})

test('keys of periods are held whole, and keys that are not enforced are not', { skip: withoutPeriods }, async () => {
  await api.sql(`create extension if not exists btree_gist;
    create table jobs (id int, at daterange, primary key (id, at without overlaps));
    create table shifts_of (id int primary key, job int, at daterange, foreign key (job, period at) references jobs (id, period at));
    create table loosely (id int primary key, plain int references plain not enforced);
    insert into jobs values (1, '[2024-01-01,2024-06-01)'), (1, '[2024-06-01,2025-01-01)');
    select svc.watch('jobs')`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/loosely')).status, 200))
  await api.call('POST /api/collections/shifts_of', { json: { id: 1, job: 1, at: '[2024-05-01,2024-07-01)' } })
  await api.call('DELETE /api/collections/shifts_of/1', named('unshifted'))
  const back = await undo({ request_id: 'unshifted' })
  assert.equal(back.status, 200, back.text)
  await api.call('DELETE /api/collections/shifts_of/1', named('unshifted-again'))
  await api.sql(`delete from jobs where at @> '2024-06-15'::date`)
  assert.match((await undo({ request_id: 'unshifted-again' })).body.conflicts[0].message, /is gone: shifts_of/)
  await api.sql(`begin; set local svc.request_id = 'made-job'; insert into jobs values (1, '[2024-06-01,2025-01-01)'); commit;
    insert into shifts_of values (2, 1, '[2024-05-01,2024-07-01)')`)
  assert.match((await undo({ request_id: 'made-job' })).body.conflicts[0].message, /rows refer to it: shifts_of/)
  await api.sql('delete from shifts_of')
  assert.equal((await undo({ request_id: 'made-job' })).status, 200)
  await api.call('POST /api/collections/loosely', { json: { id: 1, plain: 77 } })
  await api.call('DELETE /api/collections/loosely/1', named('loose'))
  assert.equal((await undo({ request_id: 'loose' })).status, 200)
})

test('rows of tables that inherit are left alone', async () => {
  await api.sql(`create table trees (id int primary key, v text); create table oaks (primary key (id)) inherits (trees);
    insert into oaks values (1, 'oak')`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/oaks')).status, 200))
  await api.call('POST /api/collections/trees', { json: { id: 1, v: 'tree' }, ...named('planted') })
  assert.equal((await undo({ request_id: 'planted' })).status, 200)
  assert.deepEqual(await api.sql('select tableoid::regclass as "table", v from trees'), [{ table: 'oaks', v: 'oak' }])
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
