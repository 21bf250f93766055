import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { withoutExtensions } from '../../../../test/cluster.ts'
import { type InProcessServer, startServer } from '../../../../test/kit.ts'

let api: InProcessServer
before(async () => {
  if (withoutExtensions) return
  api = await startServer({ postgres: 'extensions' })
  await api.sql(`
    create extension if not exists postgis;
    create extension if not exists vector;
    create table cities (
      id int primary key, name text, place geometry(Point, 4326), area geography(Polygon), shape geometry, local geometry(Point, 3857), embedding vector(3)
    );
    create table visits (id int primary key, city_id int references cities);
  `)
})

const point = { type: 'Point', coordinates: [7.4474123456789, 46.948] }
const square = {
  type: 'Polygon',
  coordinates: [
    [
      [0, 0],
      [1, 0],
      [1, 1],
      [0, 0],
    ],
  ],
}

test('geometries and vectors are JSON on every path', { skip: withoutExtensions }, async () => {
  const city = {
    id: 1,
    name: 'Bern',
    place: point,
    area: square,
    shape: {
      type: 'GeometryCollection',
      geometries: [
        point,
        {
          type: 'LineString',
          coordinates: [
            [0, 0],
            [1, 1, 5],
          ].map((c) => [...c, 0].slice(0, 3)),
        },
      ],
    },
    local: { type: 'Point', coordinates: [829000, 5933000] },
    embedding: [1, 2.5, -3],
  }
  city.shape.geometries[0] = { type: 'Point', coordinates: [7.4474123456789, 46.948, 1] }
  const made = await api.call('POST /api/collections/cities', { json: city })
  assert.equal(made.status, 201, made.text)
  assert.deepEqual(made.body, city)
  assert.deepEqual((await api.call('GET /api/collections/cities/1')).body, city)
  assert.deepEqual((await api.call('GET /api/collections/cities')).body.items, [city])
  await api.call('POST /api/collections/visits', { json: { id: 1, city_id: 1 } })
  assert.deepEqual((await api.call('GET /api/collections/visits/1?expand=city')).body.expand.city, city)
  const moved = { type: 'Point', coordinates: [1, 2] }
  const patched = await api.call('PATCH /api/collections/cities/1', { json: { place: moved, area: null } })
  assert.deepEqual(patched.body, { ...city, place: moved, area: null })
  const batch = await api.call('POST /api/collections/cities/batch', {
    json: {
      operations: [
        { method: 'create', body: { id: 2, place: point, embedding: '[0,0,1]' } },
        { method: 'update', id: 1, body: { place: point, area: square } },
      ],
    },
  })
  assert.equal(batch.status, 200, batch.text)
  assert.deepEqual(batch.body[0].body.embedding, [0, 0, 1])
  assert.deepEqual(batch.body[1].body, city)
  const [{ record }] = (await api.sql(
    `select record::text from svc.changes where table_name = 'cities' order by xid desc, id desc limit 1`,
  )) as [{ record: string }]
  assert.deepEqual(JSON.parse(record).area, square)
})

test('the reference system of the column is kept', { skip: withoutExtensions }, async () => {
  const [row] = await api.sql('select st_srid(local) as local, st_srid(place) as place from cities where id = 1')
  assert.deepEqual(row, { local: '3857', place: '4326' })
})

test('a bad geometry is a bad request', { skip: withoutExtensions }, async () => {
  const bad: unknown[] = [
    'POINT(1 2)',
    5,
    [],
    {},
    { type: 'Point' },
    { type: 'Point', coordinates: 'x' },
    { type: 'Point', coordinates: [1] },
    { type: 'Point', coordinates: ['1', '2'] },
    { type: 'Nope', coordinates: [1, 2] },
    { type: 'Feature', geometry: point },
    { type: '__proto__', coordinates: [1, 2] },
    square, // not a point
  ]
  for (const [i, place] of bad.entries()) {
    const { status, body } = await api.call('POST /api/collections/cities', { json: { id: 100 + i, place } })
    assert.deepEqual([status, body], [400, { code: 400, message: 'invalid GeoJSON geometry' }], JSON.stringify(place))
  }
  const batch = await api.call('POST /api/collections/cities/batch', {
    json: {
      operations: [
        { method: 'create', body: { id: 200, place: point } },
        { method: 'create', body: { id: 201, place: square } },
      ],
    },
  })
  assert.deepEqual(
    [batch.status, batch.body.message, batch.body.data.operation.message],
    [400, 'invalid GeoJSON geometry', 'operation[1]'],
  )
  const open = {
    type: 'Polygon',
    coordinates: [
      [
        [0, 0],
        [1, 0],
        [1, 1],
      ],
    ],
  }
  assert.equal((await api.call('POST /api/collections/cities', { json: { id: 300, area: open } })).status, 400)
})

test('geometry and vector columns can only be asked whether they are null', { skip: withoutExtensions }, async () => {
  for (const column of ['place', 'area', 'embedding']) {
    const { body } = await api.call(`GET /api/collections/cities?filter=${column}='x'`)
    assert.equal(body.message, `invalid filter: column "${column}" can only be compared with null`)
    assert.equal((await api.call(`GET /api/collections/cities?filter=${column}!=null`)).status, 200)
  }
})
