import assert from 'node:assert/strict'
import { before, beforeEach, test } from 'node:test'
import { eventually, type InProcessServer, startServer } from '../../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql(`
    create table posts (id int primary key, title text);
    create table watched (a int, b text, v int, primary key (a, b));
    create table children (id int primary key, a int, b text, foreign key (a, b) references watched on delete cascade);
    create table parted (id int primary key, v text) partition by list (id);
    create table parted_one partition of parted for values in (1);
    create table parted_rest partition of parted default;
    create table plain_parts (id int primary key, v text) partition by list (id);
    create table plain_parts_rest partition of plain_parts default;
  `)
})
beforeEach(() => api.sql('truncate svc.change_log, svc.change_packs'))

type Change = { action: string; table: string; pk: unknown; record: unknown; old: unknown; actor: unknown }
const changes = async (): Promise<Change[]> => {
  const [row] = (await api.sql(
    `select coalesce(json_agg(json_build_object('action', action, 'table', table_name, 'pk', pk, 'record', record,
       'old', old_record, 'actor', actor) order by id), '[]')::text as all from svc.changes`,
  )) as [{ all: string }]
  return JSON.parse(row.all)
}
const anonymous = { kind: 'anonymous' }

test('each write leaves one row with both images', async () => {
  await api.call('POST /api/collections/posts', { json: { id: 1, title: 'a' } })
  await api.call('PATCH /api/collections/posts/1', { json: { title: 'b' } })
  await api.call('PATCH /api/collections/posts/1', { json: { id: 2 } })
  await api.call('DELETE /api/collections/posts/2')
  const of = (action: string, pk: number, record: unknown, old: unknown) => ({
    action,
    table: 'posts',
    pk: { id: pk },
    record,
    old,
    actor: anonymous,
  })
  assert.deepEqual(await changes(), [
    of('create', 1, { id: 1, title: 'a' }, null),
    of('update', 1, { id: 1, title: 'b' }, { id: 1, title: 'a' }),
    of('update', 2, { id: 2, title: 'b' }, { id: 1, title: 'b' }),
    of('delete', 2, null, { id: 2, title: 'b' }),
  ])
})

test('a write that fails or finds nothing leaves no row', async () => {
  await api.call('POST /api/collections/posts', { json: { id: 1, title: 'a' } })
  await api.sql('truncate svc.change_log, svc.change_packs')
  await api.call('POST /api/collections/posts', { json: { id: 1 } })
  await api.call('PATCH /api/collections/posts/9', { json: { title: 'x' } })
  await api.call('DELETE /api/collections/posts/9')
  assert.deepEqual(await changes(), [])
})

test('a batch leaves its rows in order, with the right old images', async () => {
  await api.sql('truncate posts')
  const { status } = await api.call('POST /api/collections/posts/batch', {
    json: {
      operations: [
        ...[1, 2, 3].map((id) => ({ method: 'create', body: { id, title: `t${id}` } })),
        ...[3, 2, 1].map((id) => ({ method: 'update', id, body: { title: `u${id}` } })),
        ...[2, 3].map((id) => ({ method: 'delete', id })),
      ],
    },
  })
  assert.equal(status, 200)
  const all = await changes()
  assert.deepEqual(
    all.map(({ action }) => action),
    ['create', 'create', 'create', 'update', 'update', 'update', 'delete', 'delete'],
  )
  for (const { pk, record, old } of all.slice(3, 6)) {
    const { id } = pk as { id: number }
    assert.deepEqual(
      [record, old],
      [
        { id, title: `u${id}` },
        { id, title: `t${id}` },
      ],
    )
  }
})

test('concurrent updates chain: each old image is the one before', async () => {
  await api.sql(`truncate posts; insert into posts values (7, 'start')`)
  const titles = Array.from({ length: 20 }, (_, i) => `v${i}`)
  await Promise.all(titles.map((title) => api.call('PATCH /api/collections/posts/7', { json: { title } })))
  const all = await changes()
  assert.equal(all.length, 20)
  const successor = new Map(
    all.map(({ old, record }) => [(old as { title: string }).title, (record as { title: string }).title]),
  )
  let at = 'start'
  for (let i = 0; i < 20; i++) at = successor.get(at) ?? assert.fail(`nothing came after ${at}`)
})

test('the actor is the user, the key or the admin', async () => {
  const { token, user } = await api.signUp('ana@x.test')
  const { body } = await api.call('POST /api/auth/api-keys', { as: token, json: { name: 'k' } })
  await api.call('POST /api/collections/posts', { as: token, json: { id: 21 } })
  await api.call('POST /api/collections/posts', { as: body.key, json: { id: 22 } })
  await api.call('POST /api/collections/posts', { as: 'admin', json: { id: 23 } })
  const actors = (await changes()).map(({ actor }) => actor as { kind: string; id: string })
  assert.deepEqual(actors[0], { kind: 'user', id: user.id })
  assert.deepEqual([actors[1]?.kind, actors[1]?.id], ['key', body.apiKey.id])
  assert.equal(actors[2]?.kind, 'admin')
})

test('a watched table reports every writer, and API writes once', async () => {
  await api.sql(`select svc.watch('public.watched'); select svc.watch('watched'); select svc.watch('children')`)
  await eventually(async () => {
    await api.sql('truncate watched cascade; truncate svc.change_log, svc.change_packs')
    const { status } = await api.call('POST /api/collections/watched', { json: { a: 1, b: 'x' } })
    assert.equal(status, 201)
    assert.equal((await changes()).length, 1)
  })
  await api.call('POST /api/collections/watched/batch', {
    as: 'admin',
    json: { operations: [{ method: 'update', id: '1,x', body: { v: 5 } }] },
  })
  await api.sql(`insert into children values (1, 1, 'x')`)
  await api.call('DELETE /api/collections/watched/1,x')
  const all = await changes()
  assert.deepEqual(
    all.map(({ action, table, pk }) => [action, table, pk]),
    [
      ['create', 'watched', { a: 1, b: 'x' }],
      ['update', 'watched', { a: 1, b: 'x' }],
      ['create', 'children', { id: 1 }],
      ['delete', 'watched', { a: 1, b: 'x' }],
      ['delete', 'children', { id: 1 }],
    ].sort((x, y) => (x === y ? 0 : 0)),
  )
  assert.deepEqual(
    [all[1]?.record, all[1]?.old],
    [
      { a: 1, b: 'x', v: 5 },
      { a: 1, b: 'x', v: null },
    ],
  )
  assert.deepEqual(
    all.map(({ actor }) => (actor as { kind: string }).kind),
    ['anonymous', 'admin', 'system', 'anonymous', 'anonymous'],
  )
})

test('an unwatched table reports API writes only', async () => {
  await api.sql(`select svc.watch('posts'); select svc.unwatch('posts'); select svc.unwatch('posts')`)
  await api.sql(`insert into posts values (50, 'psql')`)
  assert.deepEqual(await changes(), [])
})

test('a watched partitioned table speaks for its partitions', async () => {
  await api.sql(`select svc.watch('parted')`)
  await api.sql(`insert into parted values (1, 'a'), (2, 'b')`)
  await api.sql(`update parted set v = 'c' where id = 2`)
  await api.sql(`delete from parted_one`)
  assert.deepEqual(
    (await changes()).map(({ action, table, pk }) => [action, table, pk]),
    [
      ['create', 'parted', { id: 1 }],
      ['create', 'parted', { id: 2 }],
      ['update', 'parted', { id: 2 }],
      ['delete', 'parted', { id: 1 }],
    ],
  )
  // One partition alone may be watched too, and then speaks for itself.
  await api.sql(
    `truncate svc.change_log, svc.change_packs; select svc.watch('plain_parts_rest'); insert into plain_parts values (1, 'a')`,
  )
  assert.deepEqual(
    (await changes()).map(({ table }) => table),
    ['plain_parts_rest'],
  )
})

test('what is not a table cannot be watched', async () => {
  await api.sql('create view seen as select * from posts')
  await assert.rejects(api.sql(`select svc.watch('seen')`), /is not a table/)
  await assert.rejects(api.sql(`select svc.watch('nope')`), /does not exist/)
})

test('tables of realtime.watch are watched from the start; one that is not there is a warning', async () => {
  await api.sql('create table configured (id int primary key)')
  const second = await startServer({ on: api, config: { 'realtime.watch': ['configured', 'public.posts', 'nope'] } })
  await api.sql(
    `truncate svc.change_log, svc.change_packs; insert into configured values (1); insert into posts values (60, 'x')`,
  )
  assert.deepEqual(
    (await changes()).map(({ table }) => table),
    ['configured', 'posts'],
  )
  const warning = second.observations.find(({ message }) => message === 'cannot watch table')
  assert.equal(warning?.attrs?.['table'], 'nope')
  await second.call('POST /api/collections/posts', { json: { id: 61 } })
  assert.equal((await changes()).length, 3)
})

test('the log has one form of an oid, whoever wrote it, and answers have its number', async () => {
  await api.sql('create table refs (id int primary key, o oid, os oid[])')
  const write = async (line: `${'POST' | 'PATCH' | 'DELETE'} /${string}`, json?: object) =>
    (await api.call(line, json ? { json } : {})).body
  const all = async () => {
    const made = await write('POST /api/collections/refs', { id: 1, o: 7, os: [8] })
    assert.deepEqual(made, { id: 1, o: 7, os: [8] })
    assert.deepEqual((await write('PATCH /api/collections/refs/1', { o: '9' })).o, 9)
    const operations = [
      { method: 'update', id: 1, body: { o: 10 } },
      { method: 'delete', id: 1 },
    ]
    assert.equal((await write('POST /api/collections/refs/batch', { operations }))[0].body.o, 10)
    return (await changes()).map(({ action, record, old }) => [action, record, old])
  }
  const byServer = await all()
  await api.sql(`truncate svc.change_log, svc.change_packs; select svc.watch('refs')`)
  await eventually(async () => {
    await api.sql('delete from refs; truncate svc.change_log, svc.change_packs')
    assert.deepEqual(await all(), byServer)
  })
  assert.equal(byServer.length, 4)
})
