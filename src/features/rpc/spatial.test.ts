import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutExtensions } from '../../../test/kit/cluster.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

test('rows of a table look the same from a function as from the table', { skip: withoutExtensions }, async () => {
  const api = await startServer({ postgres: 'extensions', config: { 'auth.enabled': false } })
  await api.sql(`create extension if not exists postgis; create extension if not exists vector;
    create table places (id int primary key, flat geometry(Point, 3857), round geography(Point), v vector(2));
    insert into places values (1, st_transform('srid=4326;point(7.123456789012 0)'::geometry, 3857), 'point(7.123456789012 2)', '[1,2]'),
      (2, null, null, null);
    create table calls (n int);
    create function all_places() returns setof places language sql stable as 'select * from places order by id';
    create function place(wanted int) returns places language sql volatile as
      'insert into calls values (1); select * from places where id = wanted';
    grant all on places, calls to svc_anon`)
  const point = { type: 'Point', coordinates: [7.123456789012, 2] }
  const rows = [
    { id: 1, flat: { type: 'Point', coordinates: [7.123456789012, 0] }, round: point, v: [1, 2] },
    { id: 2, flat: null, round: null, v: null },
  ]
  await eventually(async () => {
    const { body } = await api.call('POST /api/rpc/all_places')
    assert.deepEqual(body, rows)
  })
  assert.deepEqual((await api.call('GET /api/collections/places')).body.items, rows)
  const ask = async (wanted: number) => (await api.call('POST /api/rpc/place', { json: { wanted } })).body
  assert.deepEqual([await ask(1), await ask(2), await ask(3)], [rows[0], rows[1], null])
  assert.equal((await api.sql('select n from calls')).length, 3, 'each call is made once')
})

test('arguments and results of functions are GeoJSON', { skip: withoutExtensions }, async () => {
  const api = await startServer({ postgres: 'extensions', config: { 'auth.enabled': false } })
  await api.sql(`create extension if not exists postgis; create extension if not exists vector;
    create table visits (id int generated always as identity primary key, at geometry, round geography);
    create function same(g geometry) returns geometry language sql as 'select g';
    create function same_round(g geography) returns geography language sql as 'select g';
    create function srid_of(g geometry, h geography default null) returns int language sql as 'select st_srid(g)';
    create function none_of(g geometry) returns geometry language sql as 'select null::geometry';
    create function mercator(g geometry, out there geometry, out round geography, out n int) language sql
      as 'select st_transform(g, 3857), g::geography, 1';
    create function one_out(g geometry, out there geometry) language sql as 'select st_transform(g, 3857)';
    create function all_of(g geometry) returns table(flat geometry, round geography, v vector, n int) language sql
      as $$ select st_transform(g, 3857), g::geography, '[1,2]'::vector, 7 union all select null, null, null, 8 $$;
    create function each_of(g geometry) returns setof geography language sql as 'select g::geography';
    create function unnamed(g geometry, out geometry, out int) language sql as 'select g, 5';
    create function visit(g geometry) returns visits language sql as 'insert into visits (at) values (g) returning *'`)
  const point = { type: 'Point', coordinates: [7.123456789012, 0] }
  const ask = async (name: string, json: Record<string, unknown>) => {
    const { status, body } = await api.call(`POST /api/rpc/${name}`, { json })
    return status === 200 ? body : [status, body.message]
  }
  await eventually(async () => assert.deepEqual(await ask('same', { g: point }), point))
  assert.deepEqual(await ask('same_round', { g: point }), point)
  assert.deepEqual(await ask('srid_of', { g: point }), 4326)
  assert.deepEqual(
    await ask('srid_of', { g: { ...point, crs: { type: 'name', properties: { name: 'EPSG:2056' } } } }),
    4326,
  )
  assert.deepEqual(await ask('none_of', { g: null }), null)
  assert.deepEqual(await ask('mercator', { g: point }), { there: point, round: point, n: 1 })
  assert.deepEqual(await ask('one_out', { g: point }), point)
  assert.deepEqual(await ask('all_of', { g: point }), [
    { flat: point, round: point, v: [1, 2], n: 7 },
    { flat: null, round: null, v: null, n: 8 },
  ])
  assert.deepEqual(await ask('each_of', { g: point }), [{ each_of: point }])
  assert.deepEqual(await ask('unnamed', { g: point }), { column1: point, column2: 5 })
  assert.deepEqual(await ask('visit', { g: point }), { id: 1, at: point, round: null })

  const bad: unknown[] = [
    { type: 'Point', coordinates: ['a', 'b'] },
    { type: 'Point', coordinates: [1] },
    { type: 'Nowhere' },
    'POINT(1 2)',
    5,
    [],
  ]
  for (const g of bad) {
    for (const name of ['visit', 'same', 'same_round']) {
      assert.deepEqual(await ask(name, { g }), [400, 'invalid GeoJSON geometry'], JSON.stringify(g))
    }
  }
  const huge = await api.call('POST /api/rpc/visit', {
    headers: { 'Content-Type': 'application/json' },
    body: '{"g":{"type":"Point","coordinates":[1e400,2]}}',
  })
  assert.deepEqual([huge.status, huge.body.message], [400, 'invalid GeoJSON geometry'])
  assert.equal((await api.sql('select id from visits')).length, 1, 'nothing was stored')
})
