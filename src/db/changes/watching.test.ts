import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { withoutVirtualColumns } from '../../../test/kit/cluster.ts'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql(`
    create table items (id int primary key, name text, n int, svc_n int, parent int references items on delete cascade);
    create table pairs (a text, b date, doc json, primary key (a, b));
    create table keyless (v int);
    create table parts (id int, n int, primary key (id, n)) partition by list (n);
    create table parts_1 partition of parts for values in (1);
    create table parts_2 partition of parts for values in (2);
    select svc.watch('items'), svc.watch('pairs'), svc.watch('keyless'), svc.watch('parts')`)
})

const logged = async (work: string) => {
  await api.sql('delete from svc.change_log; delete from svc.change_packs')
  await api.sql(work)
  return api.sql(`select action, key, old_record::text as old, record::text as new from svc.changes order by id`)
}

test('all rows of a statement are logged, in their order and with both images', async () => {
  const made = await logged(`insert into items select i, 'n' || i from generate_series(1, 3) i`)
  assert.deepEqual(
    made.map(({ action, key }) => [action, key]),
    [
      ['create', '1'],
      ['create', '2'],
      ['create', '3'],
    ],
  )
  assert.deepEqual(await logged(`update items set id = id + 10, name = upper(name) where id > 1`), [
    {
      action: 'update',
      key: '12',
      old: '{"n": null, "id": 2, "name": "n2", "svc_n": null, "parent": null}',
      new: '{"n": null, "id": 12, "name": "N2", "svc_n": null, "parent": null}',
    },
    {
      action: 'update',
      key: '13',
      old: '{"n": null, "id": 3, "name": "n3", "svc_n": null, "parent": null}',
      new: '{"n": null, "id": 13, "name": "N3", "svc_n": null, "parent": null}',
    },
  ])
  const both = await logged(
    `insert into items values (1, 'again'), (4, 'new') on conflict (id) do update set name = excluded.name`,
  )
  assert.deepEqual(both.map(({ action, key }) => [action, key]).sort(), [
    ['create', '4'],
    ['update', '1'],
  ])
  const cascaded = await logged(`update items set parent = 1 where id = 4; delete from items where id = 1`)
  assert.deepEqual(cascaded.map(({ action, key }) => [action, key]).sort(), [
    ['delete', '1'],
    ['delete', '4'],
    ['update', '4'],
  ])
  assert.deepEqual(await logged('update items set name = name where false; delete from items where false'), [])
})

test('keys and values are written as the API writes them', async () => {
  const [row] = await logged(`insert into pairs values ('x"y', '2020-02-03', '{"b":1,"b":2}')`)
  assert.deepEqual(row, {
    action: 'create',
    key: '["x\\"y", "2020-02-03"]',
    old: null,
    new: '{"a": "x\\"y", "b": "2020-02-03", "doc": {"b": 2}}',
  })
  assert.deepEqual(await logged('insert into keyless values (1)'), [
    { action: 'create', key: null, old: null, new: '{"v": 1}' },
  ])
})

test('rows of partitions are logged whichever way they are written', async () => {
  const rows = await logged(`insert into parts values (1, 1); insert into parts_2 values (2, 2); delete from parts_1`)
  assert.deepEqual(
    rows.map(({ action, key }) => [action, key]),
    [
      ['create', '[1, 1]'],
      ['create', '[2, 2]'],
      ['delete', '[1, 1]'],
    ],
  )
})

test('a hundred thousand rows are logged by a handful of statements', async () => {
  await api.sql("create table many (id int primary key, v text); select svc.watch('many')")
  const calls = () =>
    api.sql(
      `select coalesce(sum(calls), 0) as n from pg_stat_user_functions where schemaname = 'svc' and funcname in ('log_statement', 'keep_shape', 'log_change')`,
    )
  await api.sql("load 'plpgsql'; set track_functions = 'all'")
  const [{ n: before }] = await calls()
  await api.sql(`insert into many select i, 'v' from generate_series(1, 100000) i`)
  await api.sql('set track_functions = none')
  await eventually(async () => {
    const [{ n }] = await calls()
    assert.ok(Number(n) - Number(before) >= 1 && Number(n) - Number(before) <= 4, `${n} calls`)
  })
  assert.deepEqual(
    await api.sql(
      `select sum(events) as n, count(*) as entries from svc.change_log where table_oid = 'many'::regclass`,
    ),
    [{ n: '100000', entries: '100' }],
  )
})

const ZOO = `id bigint primary key, b boolean, i smallint, r real, f float8, n numeric, t text, v varchar(20), c char(5), u uuid, d date,
  ts timestamp, tz timestamptz, iv interval, j jsonb, js json, a text[], by bytea, "svc_i1" int, "odd ""name" text, mood mood`
/** Rows of all kinds of values, every third without any. */
const ANIMALS = `select i, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
  from generate_series(1, %, 3) i union all
  select i, i % 2 = 0, i % 100, i / 3.0, i / 7.0, i / 9.0, 't"\\' || i, 'v' || i, 'c', md5(i::text)::uuid, '2020-01-01'::date + (i % 700),
    '2020-01-01'::timestamp + i * interval '1.000001 s', '2020-01-01Z'::timestamptz + i * interval '1 s', i * interval '1 day 2 s',
    jsonb_build_object('i', i), '{"b":1,"b":2}'::json, array['a"', null], decode(lpad(to_hex(i), 8, '0'), 'hex'), i, chr(10) || i, 'happy'::mood
  from generate_series(1, %, 1) i where i % 3 <> 1`

test('rows of a large statement are packed, and read as those of small ones are', async () => {
  await api.sql(`create type mood as enum ('happy'); create table packed (${ZOO}); create table single (like packed including all);
    select svc.watch('packed'), svc.watch('single')`)
  const write = async (statement: (table: string, where: string) => string) => {
    await api.sql('truncate svc.change_log, svc.change_packs')
    await api.sql(statement('packed', 'true'))
    for (let from = 0; from < 1500; from += 300) {
      await api.sql(statement('single', `id % 10000 > ${from} and id % 10000 <= ${from + 300}`))
    }
    const changes = (table: string) =>
      api.sql(`select action, pk::text, key, record::text, old_record::text from svc.changes
        where table_oid = '${table}'::regclass order by (pk ->> 'id')::bigint`)
    const [packed, single] = [await changes('packed'), await changes('single')]
    assert.equal(packed.length, 1500)
    assert.deepEqual(packed, single)
    const [{ entries }] = await api.sql(
      `select count(*) as entries from svc.change_log where table_oid = 'packed'::regclass`,
    )
    assert.ok(Number(entries) >= 2 && Number(entries) <= 4, entries)
  }
  const rows = ANIMALS.replaceAll('%,', '1500,')
  await write((table, where) => `insert into ${table} select * from (${rows}) as r(id) where ${where}`)
  await write((table, where) => `update ${table} set id = id + 10000, n = n + 1, t = null where ${where}`)
  const one = await api.sql(
    `select action, old_record ->> 'id' as was from svc.changes_of('packed'::regclass, '10007')`,
  )
  assert.deepEqual(one, [{ action: 'update', was: '7' }])
  await write((table, where) => `delete from ${table} where ${where}`)
})

test('rows without a key, or with one that is no number, are packed; one row more than an entry holds, and large ones, are not lost', async () => {
  const { length } = await logged('insert into keyless select generate_series(1, 600)')
  assert.equal(length, 600)
  await logged(`insert into pairs select 'a' || i, '2020-01-01' from generate_series(1, 1001) i`)
  assert.deepEqual(await api.sql('select events from svc.change_log'), [{ events: '1001' }])
  assert.deepEqual(await api.sql(`select action from svc.changes_of('pairs'::regclass, '["a7", "2020-01-01"]')`), [
    { action: 'create' },
  ])
  const large = await logged(
    `insert into items (id, name) select 20000 + i, repeat('x', 30000) from generate_series(1, 500) i`,
  )
  assert.equal(large.length, 500)
  assert.deepEqual(await api.sql('select distinct events from svc.change_log'), [{ events: '1' }])
  await logged('delete from items where id > 20000')
  assert.deepEqual(await api.sql('select distinct events from svc.change_log'), [{ events: '1' }])
})

test('images have the values of virtual columns, as reads have them, of rows of partitions and packed ones too', {
  skip: withoutVirtualColumns,
}, async () => {
  const columns = `id int primary key, v text, "select" varchar(3) generated always as (upper(v)), n numeric(6, 2) generated always as (id + 1),
    d date generated always as (('2020-01-01'::date + id)::timestamp), s int generated always as (id * 2) stored`
  await api.sql(`create table derived (${columns}); create table pieces (${columns}) partition by list (id);
    create table piece partition of pieces default; alter table derived drop "select"; alter table derived drop v, add v text;
    alter table derived add "select" varchar(3) generated always as (upper(v)); select svc.watch('derived'), svc.watch('pieces')`)
  const read = (table: string) => api.sql(`select to_jsonb(t.*)::text as row from ${table} t order by id`)
  const images = (side: string) =>
    api.sql(`select ${side}::text as row from svc.changes order by (coalesce(record, old_record) ->> 'id')::int`)
  for (const [table, rows] of [
    ['derived', 3],
    ['derived', 700],
    ['pieces', 2],
  ] as const) {
    await logged(`insert into ${table} (id, v) select i, 'v' || i % 10 from generate_series(1, ${rows}) i`)
    const made = await read(table)
    assert.deepEqual(await images('record'), made, `${rows} rows of ${table}`)
    await logged(`update ${table} set v = 'w'`)
    const changed = await read(table)
    assert.deepEqual([await images('old_record'), await images('record')], [made, changed])
    await logged(`delete from ${table}`)
    assert.deepEqual(await images('old_record'), changed)
  }
  await api.sql('alter table derived alter n set expression as (id * 10)')
  const [{ new: image }] = await logged(`insert into derived (id, v) values (1, 'x')`)
  assert.equal(JSON.parse(image).n, 10)
})

test('an expression of a virtual column that raises keeps no row from being written', {
  skip: withoutVirtualColumns,
}, async () => {
  const columns = 'id int primary key, n int, share int generated always as (100 / n)'
  await api.sql(`create table shares (${columns}); create table cuts (${columns}) partition by list (id);
    create table cut partition of cuts default; select svc.watch('shares'), svc.watch('cuts')`)
  for (const table of ['shares', 'cuts']) {
    const rows = await logged(`insert into ${table} values (1, 0); update ${table} set n = 5; delete from ${table}`)
    assert.deepEqual(
      rows.map(({ old, new: now }) => [old, now].map((image) => image && JSON.parse(image).share)),
      [
        [null, null],
        [null, null],
        [20, null],
      ],
    )
  }
})

test('of an account that is deleted, images in packs are emptied too', async () => {
  const { user } = await api.signUp('bo@x.test')
  await api.sql(`create table owned (id int primary key, owner uuid references svc.users on delete cascade, secret text);
    select svc.watch('owned'); truncate svc.change_log, svc.change_packs;
    insert into owned select i, case when i % 2 = 0 then '${user.id}'::uuid end, 'secret' || i from generate_series(1, 1400) i;
    delete from svc.users where id = '${user.id}'`)
  await eventually(async () => {
    await api.sql(`select svc.forget_images((select max(id) + 1024 from svc.change_log), interval '0')`)
    const secrets =
      await api.sql(`select count(*) as n, count(*) filter (where coalesce(record, old_record) ->> 'secret' is not null) as told
      from svc.changes where table_oid = 'owned'::regclass`)
    assert.deepEqual(secrets, [{ n: '2100', told: '700' }])
  })
  assert.deepEqual(await api.sql(`select action from svc.changes_of('owned'::regclass, '8') order by id`), [
    { action: 'create' },
    { action: 'delete' },
  ])
})

test('TRUNCATE is one change, and streams begin anew', async () => {
  await eventually(async () => assert.equal((await api.call('GET /api/collections/items')).status, 200))
  const { token } = await api.signUp('ana@x.test')
  const stream = await listenTo(api.url, { token, query: { tables: 'items' } })
  assert.deepEqual(await logged('truncate items'), [{ action: 'truncate', key: null, old: null, new: null }])
  await api.sql(`insert into items values (1, 'after')`)
  await eventually(() => assert.ok(stream.events.some(({ data }) => data?.record?.name === 'after')))
  assert.deepEqual(
    stream.events.map(({ event }) => event).filter((name) => name === 'reset'),
    ['reset'],
  )
  stream.close()
  const { body } = await api.call('GET /api/admin/changes?table=items', { as: 'admin' })
  assert.deepEqual(
    body.items.map(({ action }: { action: string }) => action),
    ['create', 'truncate'],
  )
  const undone = await api.call('POST /api/admin/undo', { as: 'admin', json: { changes: [body.items[1].id] } })
  assert.deepEqual([undone.status, undone.body.conflicts[0].message], [409, 'the rows were not logged'])
})

test('a trigger that is switched off leaves the log to the API, for every kind of write', async () => {
  await api.sql('alter table items disable trigger svc_watch')
  const rows = await logged(`insert into items values (7, 'a'); update items set name = 'b'; delete from items`)
  assert.deepEqual(rows, [])
  await api.sql("alter table items enable always trigger svc_watch; select svc.unwatch('items')")
  assert.deepEqual(await api.sql(`select from pg_trigger where tgrelid = 'items'::regclass and tgname ~ '^svc'`), [])
})
