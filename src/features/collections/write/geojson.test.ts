import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { withoutExtensions } from '../../../../test/kit/cluster.ts'
import { eventually, type InProcessServer, startServer } from '../../../../test/kit/kit.ts'

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
    local: { type: 'Point', coordinates: [7.5, 0] },
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

test('a column keeps its reference system, and clients see WGS 84', { skip: withoutExtensions }, async () => {
  const [row] = await api.sql(`select st_srid(local) as local, round(st_x(local)) as x, st_srid(place) as place
    from cities where id = 1`)
  assert.deepEqual(row, { local: '3857', x: '834896', place: '4326' })
  await api.sql(`insert into cities (id, local) values (50, st_setsrid(st_makepoint(834896.2, 5933000), 3857));
    insert into cities (id, shape) values (51, st_setsrid(st_makepoint(834896.2, 5933000), 3857)), (52, st_makepoint(5000, 9000))`)
  const at = async (id: number) => (await api.call(`GET /api/collections/cities/${id}`)).body
  const degrees = (value: { coordinates: number[] }) => value.coordinates.map((part) => Math.round(part * 1000) / 1000)
  assert.deepEqual(degrees((await at(50)).local), [7.5, 46.944])
  assert.deepEqual(degrees((await at(51)).shape), [7.5, 46.944])
  assert.deepEqual((await at(52)).shape.coordinates, [5000, 9000], 'no reference system, nothing to transform')
})

test('a reference system named in GeoJSON counts for nothing', { skip: withoutExtensions }, async () => {
  const crs = { type: 'name', properties: { name: 'EPSG:3857' } }
  const { status, body } = await api.call('POST /api/collections/cities', {
    json: {
      id: 60,
      place: { ...point, crs },
      shape: { ...point, crs },
      local: { type: 'Point', coordinates: [7.5, 0], crs },
    },
  })
  assert.deepEqual([status, body.place, body.shape, body.local.coordinates], [201, point, point, [7.5, 0]])
})

test('what cannot be transformed is a bad request', { skip: withoutExtensions }, async () => {
  for (const coordinates of [
    [7, 91],
    [1e300, 1],
    [0, -1e9],
  ]) {
    const { status, body } = await api.call('POST /api/collections/cities', {
      json: { id: 70, local: { type: 'Point', coordinates } },
    })
    assert.deepEqual([status, body.message], [400, 'invalid GeoJSON geometry'], String(coordinates))
  }
  await api.sql(`create table unknown_system (id int primary key, g geometry(Point, 990001));
    insert into unknown_system values (1, st_setsrid(st_makepoint(1, 2), 990001)); select svc.watch('unknown_system')`)
  await eventually(async () => {
    assert.equal((await api.call('GET /api/collections/unknown_system?fields=id')).status, 200)
  })
  for (const path of ['unknown_system', 'unknown_system/1']) {
    const { status, body } = await api.call(`GET /api/collections/${path}`)
    assert.deepEqual([status, body.message], [400, 'geometry cannot be read, transformed or compared'])
  }
  const made = await api.call('POST /api/collections/unknown_system', { json: { id: 2, g: point } })
  assert.deepEqual([made.status, made.body.message], [400, 'invalid GeoJSON geometry'])
  await api.sql('insert into unknown_system values (3, st_setsrid(st_makepoint(1, 2), 990001))')
  const [logged] = await api.sql(
    `select record from svc.changes where table_name = 'unknown_system' and pk = '{"id":3}'`,
  )
  assert.deepEqual(logged, { record: '{"g": null, "id": 3}' }, 'writers outside the API do not fail for the log')
})

test('the change log is in WGS 84, whoever writes', { skip: withoutExtensions }, async () => {
  await api.sql(`create table marks (id int primary key, g geometry(Point, 3857), h geography(Point)); select svc.watch('marks');
    insert into marks values (1, st_setsrid(st_makepoint(834896.2, 5933000), 3857), 'point(7 46)'), (2, null, null)`)
  const rows =
    await api.sql(`select round((record #>> '{g,coordinates,0}')::numeric, 3) as lng, record #>> '{h,coordinates,1}' as lat
    from svc.changes where table_name = 'marks' order by pk`)
  assert.deepEqual(rows, [
    { lng: '7.500', lat: '46' },
    { lng: null, lat: null },
  ])
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
    { type: 'Point', coordinates: [null, 2] },
    { type: 'Nope', coordinates: [1, 2] },
    { type: 'Feature', geometry: point },
    { type: '__proto__', coordinates: [1, 2] },
    square, // not a point
  ]
  for (const [i, place] of bad.entries()) {
    const { status, body } = await api.call('POST /api/collections/cities', { json: { id: 100 + i, place } })
    assert.deepEqual(
      [status, body],
      [400, { code: 400, error: 'invalid_geometry', message: 'invalid GeoJSON geometry' }],
      JSON.stringify(place),
    )
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
