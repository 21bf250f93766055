import assert from 'node:assert/strict'
import { before, test } from 'node:test'
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
  await api.sql('delete from svc.change_log')
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
  assert.deepEqual(await api.sql(`select count(*) as n from svc.change_log where table_oid = 'many'::regclass`), [
    { n: '100000' },
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
