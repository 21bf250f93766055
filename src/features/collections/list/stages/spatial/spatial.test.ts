import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { withoutExtensions } from '../../../../../../test/kit/cluster.ts'
import { eventually, type InProcessServer, startServer } from '../../../../../../test/kit/kit.ts'

let api: InProcessServer

/** The same places in every kind of column. */
const COLUMNS = ['round', 'flat', 'bare', 'mercator']

before(async () => {
  if (withoutExtensions) return
  api = await startServer({ postgres: 'extensions', config: { 'auth.enabled': false } })
  await api.sql(`
    create extension if not exists postgis;
    create table cities (id int primary key, name text, round geography(Point), flat geometry(Point, 4326),
      bare geometry, mercator geometry(Point, 3857));
    insert into cities
      select id, name, p::geography, p, st_setsrid(p, 0), st_transform(p, 3857)
      from (values (1, 'Bern', 7.4474, 46.948), (2, 'Basel', 7.5886, 47.5596), (3, 'Suva', 178.44, -18.14),
                   (4, 'Apia', -171.76, -13.83), (5, 'Tromso', 18.955, 69.65)) as v(id, name, lng, lat),
           st_setsrid(st_makepoint(lng, lat), 4326) as p;
    insert into cities (id, name) values (6, 'Atlantis')`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/cities')).status, 200))
})

const list = async (query: Record<string, string>, table = 'cities') => {
  const { status, body } = await api.call(`GET /api/collections/${table}?${new URLSearchParams(query)}`)
  return { status, body }
}
const found = async (query: Record<string, string>, table = 'cities'): Promise<number[]> => {
  const { status, body } = await list({ sort: 'id', ...query }, table)
  assert.equal(status, 200, JSON.stringify(body))
  assert.equal(body.totalItems, body.items.length)
  return body.items.map(({ id }: { id: number }) => id)
}
const square = (west: number, south: number, east: number, north: number) => ({
  type: 'Polygon',
  coordinates: [
    [
      [west, south],
      [east, south],
      [east, north],
      [west, north],
      [west, south],
    ],
  ],
})

test('near finds what is within a distance, in metres', { skip: withoutExtensions }, async () => {
  for (const column of COLUMNS) {
    const near = (lng: number, lat: number, meters: number) => found({ near: `${column},${lng},${lat},${meters}` })
    assert.deepEqual(await near(7.4474, 46.948, 0.01), [1], column)
    assert.deepEqual(await near(7.4474, 46.948, 68_000), [1], column)
    assert.deepEqual(await near(7.4474, 46.948, 69_500), [1, 2], column)
    assert.deepEqual(await near(-179.9, -18, 200_000), [3], `${column} across the date line`)
    assert.deepEqual(await near(179.9, -15, 1_000_000), [3, 4], `${column} across the date line`)
    assert.deepEqual(await near(-120, 89, 2_400_000), [5], `${column} over the pole`)
    assert.deepEqual(await near(0, 0, 1e300), [1, 2, 3, 4, 5], column)
  }
})

test('within is covered by an area, intersects shares a point', { skip: withoutExtensions }, async () => {
  for (const column of COLUMNS) {
    const within = (area: unknown) => found({ within: `${column},${JSON.stringify(area)}` })
    assert.deepEqual(await within(square(7, 46, 8, 47)), [1], column)
    assert.deepEqual(await within(square(-180, -90, 180, 90)), [1, 2, 3, 4, 5], column)
    assert.deepEqual(await within(square(0, 40, 80, 69)), [1, 2], column)
    const both = {
      type: 'MultiPolygon',
      coordinates: [square(7, 46, 8, 47), square(18, 69, 19, 70)].map((s) => s.coordinates),
    }
    assert.deepEqual(await within(both), [1, 5], column)
    const intersects = (geometry: unknown) => found({ intersects: `${column},${JSON.stringify(geometry)}` })
    const bern = { type: 'Point', coordinates: [7.4474, 46.948] }
    if (column !== 'mercator') assert.deepEqual(await intersects(bern), [1], column)
    const collection = { type: 'GeometryCollection', geometries: [bern, square(7, 47, 8, 48)] }
    if (column !== 'mercator') assert.deepEqual(await intersects(collection), [1, 2], column)
    assert.deepEqual(await intersects({ type: 'Point', coordinates: [0, 0], geometries: 5 }), [], column)
  }
})

test('bbox may cross the date line', { skip: withoutExtensions }, async () => {
  for (const column of COLUMNS) {
    const bbox = (...numbers: number[]) => found({ bbox: `${column},${numbers.join(',')}` })
    assert.deepEqual(await bbox(7, 46, 8, 48), [1, 2], column)
    assert.deepEqual(await bbox(170, -30, -170, 0), [3, 4], column)
    assert.deepEqual(await bbox(-170, -30, 170, 0), [], column)
    assert.deepEqual(await bbox(-180, -90, 180, 90), [1, 2, 3, 4, 5], column)
  }
})

test('spatial filters combine with each other and with everything else', { skip: withoutExtensions }, async () => {
  const query = {
    bbox: 'flat,0,40,20,80',
    near: 'round,7.4474,46.948,100000',
    filter: "name~'%e%'",
    fields: 'id',
    sort: '-id',
  }
  assert.deepEqual((await list({ ...query, perPage: '1' })).body, {
    items: [{ id: 2 }],
    page: 1,
    perPage: 1,
    totalItems: 2,
    totalPages: 2,
  })
})

test('the nearest come first, with their distance', { skip: withoutExtensions }, async () => {
  for (const column of COLUMNS) {
    const { body } = await list({ sort: `${column}.distance(7.4474,46.948),name`, fields: 'name' })
    const names = body.items.map(({ name }: { name: string }) => name)
    assert.deepEqual(names, ['Bern', 'Basel', 'Tromso', 'Apia', 'Suva', 'Atlantis'], column)
    assert.equal(Math.round(body.items[1]._distance / 1000), 69)
    assert.ok(body.items[0]._distance < 0.01)
    assert.equal(body.items[5]._distance, null)
  }
  const far = await list({ sort: '-round.distance(7.4474,46.948)', filter: 'round!=null', fields: 'id' })
  assert.deepEqual(
    far.body.items.map(({ id }: { id: number }) => id),
    [3, 4, 5, 2, 1],
  )
})

test('shapes that cross themselves are neither asked for nor found, and end nobody’s search', {
  skip: withoutExtensions,
}, async () => {
  const bow = {
    type: 'Polygon',
    coordinates: [
      [
        [0, 0],
        [2, 2],
        [2, 0],
        [0, 2],
        [0, 0],
      ],
    ],
  }
  await api.sql(`create table areas (id int primary key, flat geometry, round geography);
    insert into areas select id, g, g::geography from (values
      (1, 'srid=4326;polygon((0 0,2 2,2 0,0 2,0 0))'::geometry),
      (2, 'srid=4326;geometrycollection(point(1 1),linestring(0 0,1 1))'),
      (3, 'srid=4326;polygon((0 0,10 0,10 10,0 10,0 0),(20 20,21 20,21 21,20 20))'),
      (4, 'srid=4326;multipolygon(((0 0,5 0,5 5,0 5,0 0)),((1 1,3 1,3 3,1 3,1 1)))'),
      (5, 'srid=4326;polygon((0 0,10 0,10 10,0 10,0 0))')) v(id, g)`)
  await eventually(async () => assert.equal((await list({}, 'areas')).status, 200))
  for (const column of ['flat', 'round']) {
    for (const name of ['intersects', 'within']) {
      const { status, body } = await list({ [name]: `${column},${JSON.stringify(bow)}` }, 'areas')
      assert.deepEqual([status, body.message], [400, `invalid ${name} parameter: edges cross each other`])
    }
    const around = JSON.stringify(square(-1, -1, 6, 6))
    assert.deepEqual(await found({ intersects: `${column},${around}` }, 'areas'), [2, 5])
    assert.deepEqual(await found({ within: `${column},${around}` }, 'areas'), [2])
    assert.deepEqual(await found({ bbox: `${column},-1,-1,6,6` }, 'areas'), [1, 2, 3, 4, 5])
    assert.deepEqual(await found({ near: `${column},30,5,2300000` }, 'areas'), [3, 5])
  }
})

test('what is wrong with a spatial parameter is said', { skip: withoutExtensions }, async () => {
  const off = 'longitude must be -180 to 180 and latitude -90 to 90'
  const open = JSON.stringify({
    type: 'Polygon',
    coordinates: [
      [
        [0, 0],
        [1, 0],
        [1, 1],
        [0, 1],
      ],
    ],
  })
  const bad: [string, string, string][] = [
    ['near', 'name,1,2,3', 'column "name" is not a geometry column'],
    ['near', 'nope,1,2,3', 'column "nope" is not a geometry column'],
    ['near', 'flat', 'invalid near parameter: expected longitude,latitude,meters'],
    ['near', 'flat,1,2', 'invalid near parameter: expected longitude,latitude,meters'],
    ['near', 'flat,1,2,NaN', 'invalid near parameter: meters must be a number'],
    ['near', 'flat,Infinity,2,1', 'invalid near parameter: longitude must be a number'],
    ['near', 'flat,1,1e999,1', 'invalid near parameter: latitude must be a number'],
    ['near', 'flat,1,2,-1', 'invalid near parameter: meters must not be negative'],
    ['near', 'flat,181,2,1', `invalid near parameter: ${off}`],
    ['near', 'bare,1,-90.1,1', `invalid near parameter: ${off}`],
    ['near', "flat,1,2,3');drop table cities--", 'invalid near parameter: meters must be a number'],
    ['bbox', 'flat,1,2,3', 'invalid bbox parameter: expected minLng,minLat,maxLng,maxLat'],
    ['bbox', 'flat,1,3,2,2', 'invalid bbox parameter: minLat must not be greater than maxLat'],
    ['bbox', 'flat,1,2,1e308,3', `invalid bbox parameter: ${off}`],
    ['bbox', 'bare,1000,2,1,3', 'invalid bbox parameter: minLng must not be greater than maxLng'],
    ['within', 'flat,x', 'invalid within parameter: expected GeoJSON'],
    [
      'within',
      'flat,{"type":"Point","coordinates":[1,2]}',
      'invalid within parameter: expected a Polygon or MultiPolygon',
    ],
    ['within', `flat,${open}`, 'invalid within parameter: invalid GeoJSON geometry'],
    ['within', `flat,${JSON.stringify(square(0, 0, 1e308, 1))}`, `invalid within parameter: ${off}`],
    ['within', 'flat,{"type":"Polygon","coordinates":[]}', 'invalid within parameter: geometry is empty'],
    [
      'intersects',
      'flat,{"type":"Point","coordinates":[1e999,2]}',
      'invalid intersects parameter: invalid GeoJSON geometry',
    ],
    [
      'intersects',
      'flat,{"type":"Point","coordinates":["1","2"]}',
      'invalid intersects parameter: invalid GeoJSON geometry',
    ],
    ['intersects', `flat,${'['.repeat(2000)}`, 'invalid intersects parameter: expected GeoJSON'],
    ['intersects', 'flat,null', 'invalid intersects parameter: invalid GeoJSON geometry'],
    [
      'intersects',
      'flat,{"type":"GeometryCollection","geometries":5}',
      'invalid intersects parameter: invalid GeoJSON geometry',
    ],
    ['sort', 'name.distance(1,2)', 'column "name" is not a geometry column'],
    ['sort', 'flat.distance(1)', 'invalid sort parameter: expected longitude,latitude'],
    ['sort', 'flat.distance(1,95)', `invalid sort parameter: ${off}`],
    [
      'sort',
      'id,flat.distance(1,2)',
      'invalid sort parameter: a distance is written column.distance(lng,lat) and comes first',
    ],
    ['sort', 'flat', 'unsupported sort column "flat" with type "geometry(Point,4326)"'],
  ]
  for (const [name, value, message] of bad) {
    const { status, body } = await list({ [name]: value })
    assert.deepEqual([status, body.message], [400, message], `${name}=${value}`)
  }
})

test('coordinates without a reference system need not be degrees', { skip: withoutExtensions }, async () => {
  await api.sql(`create table plans (id int primary key, spot geometry(Point));
    insert into plans values (1, st_makepoint(5000, 9000)), (2, st_makepoint(1e9, 9000))`)
  await eventually(async () => assert.equal((await list({}, 'plans')).status, 200))
  assert.deepEqual(await found({ bbox: 'spot,4000,8000,6000,10000' }, 'plans'), [1])
  assert.deepEqual(await found({ within: `spot,${JSON.stringify(square(0, 0, 1e308, 1e308))}` }, 'plans'), [1, 2])
  assert.equal((await list({ near: 'spot,1,1,1000' }, 'plans')).status, 200)
  assert.equal((await list({ sort: 'spot.distance(1,1)' }, 'plans')).status, 200)
})

test('without PostGIS there is nothing spatial to ask', async () => {
  const plain = await startServer({ config: { 'auth.enabled': false } })
  await plain.sql('create table cities (id int primary key)')
  await eventually(async () => assert.equal((await plain.call('GET /api/collections/cities')).status, 200))
  for (const query of ['near=x', 'within=id,1', 'intersects=x', 'bbox=1', 'sort=id.distance(1,2)']) {
    const { status, body } = await plain.call(`GET /api/collections/cities?${query}`)
    assert.deepEqual([status, body.message], [400, 'spatial filters require PostGIS extension'], query)
  }
})
