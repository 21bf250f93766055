import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutExtensions } from '../../../test/cluster.ts'
import { eventually, startServer } from '../../../test/kit.ts'

test('rows of a table look the same from a function as from the table', { skip: withoutExtensions }, async () => {
  const api = await startServer({ postgres: 'extensions', config: { 'auth.enabled': false } })
  await api.sql(`create extension if not exists postgis; create extension if not exists vector;
    create table places (id int primary key, flat geometry(Point, 3857), round geography(Point), v vector(2));
    insert into places values (1, st_setsrid('point(7.123456789012 2)'::geometry, 3857), 'point(7.123456789012 2)', '[1,2]'),
      (2, null, null, null);
    create table calls (n int);
    create function all_places() returns setof places language sql stable as 'select * from places order by id';
    create function place(wanted int) returns places language sql volatile as
      'insert into calls values (1); select * from places where id = wanted';
    grant all on places, calls to svc_anon`)
  const point = { type: 'Point', coordinates: [7.123456789012, 2] }
  const rows = [
    { id: 1, flat: point, round: point, v: [1, 2] },
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
