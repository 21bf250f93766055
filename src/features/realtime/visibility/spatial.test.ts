import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutExtensions } from '../../../../test/kit/cluster.ts'
import { listenTo } from '../../../../test/kit/event-stream.ts'
import { eventually, startServer } from '../../../../test/kit/kit.ts'

test('spatial and vector columns arrive as GeoJSON and arrays, under policies that look at them', {
  skip: withoutExtensions,
}, async () => {
  const api = await startServer({ postgres: 'extensions' })
  await api.sql(`create extension if not exists postgis; create extension if not exists vector;
    create table places (id int primary key, owner uuid, flat geometry(Point, 3857), round geography(Point), any_shape geometry, v vector(2));
    alter table places enable row level security;
    create policy near on places using (owner = nullif(current_setting('svc.user_id', true), '')::uuid and st_x(flat) > 0)`)
  const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/places', { as: 'admin' })).status, 200),
  )
  const [forAna, forBo] = [await listenTo(api.url, { token: ana.token }), await listenTo(api.url, { token: bo.token })]
  const point = (x: number) => ({ type: 'Point', coordinates: [x, 2] })
  const row = { id: 1, owner: ana.user.id, flat: point(5), round: point(6), any_shape: point(7), v: [1, 2] }
  const admin = (line: Parameters<typeof api.call>[0], json?: object) =>
    api.call(line, { as: 'admin', ...(json && { json }) })
  assert.equal((await admin('POST /api/collections/places', row)).status, 201)
  await forAna.until(({ data }) => data.action === 'create')
  await admin('PATCH /api/collections/places/1', { flat: point(-1) })
  await forAna.until(({ data }) => data.action === 'delete')
  await admin('PATCH /api/collections/places/1', { flat: point(3) })
  await forAna.until(({ data }) => data.action === 'update')
  await admin('DELETE /api/collections/places/1')
  await eventually(() => assert.equal(forAna.changes().length, 4))
  assert.deepEqual(forAna.changes(), [
    { action: 'create', table: 'places', record: row },
    { action: 'delete', table: 'places', record: { id: 1 } },
    { action: 'update', table: 'places', record: { ...row, flat: point(3) } },
    { action: 'delete', table: 'places', record: { id: 1 } },
  ])
  assert.deepEqual(forBo.changes(), [])
  forAna.close()
  forBo.close()
})

test('a watched table tells of spatial and vector columns the same way, whoever writes, and they come back by undo', {
  skip: withoutExtensions,
}, async () => {
  const api = await startServer({ postgres: 'extensions', config: { 'auth.enabled': false } })
  await api.sql(`create extension if not exists postgis; create extension if not exists vector;
    create domain spot as geography(Point);
    create table sights (id int primary key, flat geometry(Point, 3857), round geography(Point), at spot, v vector(2), nothing geography);
    grant all on sights to svc_anon; select svc.watch('sights')`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/sights')).status, 200))
  const events = await listenTo(api.url, { query: { tables: 'sights' } })
  const row = (x: number) => {
    const point = { type: 'Point', coordinates: [x, 2] }
    return { id: 1, flat: point, round: point, at: point, v: [1, 2], nothing: null }
  }
  const text = `'point(7.123456789012 2)'`
  await api.sql(
    `insert into sights values (1, st_transform(st_setsrid(${text}::geometry, 4326), 3857), ${text}, ${text}, '[1,2]')`,
  )
  assert.equal((await api.call('PATCH /api/collections/sights/1', { json: row(3) })).status, 200)
  await eventually(() => assert.equal(events.changes().length, 2))
  assert.deepEqual(events.changes(), [
    { action: 'create', table: 'sights', record: row(7.123456789012) },
    { action: 'update', table: 'sights', record: row(3) },
  ])
  const [{ old_record }] = (await api.sql(`select old_record from svc.changes where action = 'update'`)) as [
    { old_record: string },
  ]
  assert.deepEqual(JSON.parse(old_record), row(7.123456789012))
  events.close()
  const named = { headers: { 'x-request-id': 'gone' } }
  const [{ id }] = (await api.sql(`select id from svc.changes where action = 'update'`)) as [{ id: string }]
  assert.equal((await api.call('DELETE /api/collections/sights/1', named)).status, 204)
  for (const [what, x] of [
    [{ request_id: 'gone' }, 3],
    [{ changes: [id] }, 7.123456789012],
  ] as const) {
    const { status, text: said } = await api.call('POST /api/admin/undo', { as: 'admin', json: what })
    assert.equal(status, 200, said)
    assert.deepEqual((await api.call('GET /api/collections/sights/1')).body, row(x))
  }
})
