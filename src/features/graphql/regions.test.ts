import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { withoutExtensions } from '../../../test/kit/cluster.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer

before(async () => {
  if (withoutExtensions) return
  api = await startServer({ postgres: 'extensions', config: { 'auth.enabled': false } })
  await api.sql(`create extension if not exists postgis;
    create table countries (id int primary key);
    create table cities (id int primary key, country_id int references countries, spot geography(Point), flat geometry(Point, 4326));
    insert into countries values (1);
    insert into cities values (1, 1, 'point(7.4474 46.948)', 'srid=4326;point(7.4474 46.948)'),
      (2, 1, 'point(7.5886 47.5596)', 'srid=4326;point(7.5886 47.5596)')`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/cities')).status, 200))
})

const ask = async (query: string, variables: Record<string, unknown> = {}) =>
  (await api.call('POST /api/graphql', { json: { query, variables } })).body

const AREA = '{"type":"Polygon","coordinates":[[[7,46],[8,46],[8,47],[7,47],[7,46]]]}'

test('lists take spatial arguments, at every level', { skip: withoutExtensions }, async () => {
  const { data, errors } = await ask(
    `query ($area: String) {
      near: cities(near: {spot: "7.4474,46.948,1000"}) { id spot }
      within: cities(within: {flat: $area}) { id }
      intersects: cities(intersects: {spot: $area}, where: {id: {_gt: 1}}) { id }
      bbox: cities(bbox: {flat: "7,46,8,48", spot: "7,47,8,48"}, within: null, near: {flat: null}) { id }
      countries { cities(near: {flat: "7.5886,47.5596,10"}) { id } }
    }`,
    { area: AREA },
  )
  assert.equal(errors, undefined, JSON.stringify(errors))
  assert.deepEqual(data, {
    near: [{ id: 1, spot: { type: 'Point', coordinates: [7.4474, 46.948] } }],
    within: [{ id: 1 }],
    intersects: [],
    bbox: [{ id: 2 }],
    countries: [{ cities: [{ id: 2 }] }],
  })
})

test('a bad spatial argument is told as in a list, however large', { skip: withoutExtensions }, async () => {
  const refused = async (query: string, variables = {}) => {
    const { errors } = await ask(query, variables)
    return [errors?.[0]?.extensions.code, errors?.[0]?.message]
  }
  assert.deepEqual(await refused('{ cities(near: {spot: "7,46"}) { id } }'), [
    400,
    'invalid near parameter: expected longitude,latitude,meters',
  ])
  assert.equal((await refused('{ cities(near: {id: "7,46,1"}) { id } }'))[0], 400)
  assert.equal((await refused('{ countries(near: {id: "7,46,1"}) { id } }'))[0], 400)
  const query = 'query ($area: String) { cities(within: {flat: $area}) { id } }'
  const hostile = ['{"type":"Polygon","coordinates":[[[0,0],[1e999,0],[1,1],[0,0]]]}', '['.repeat(500_000), 'null', '']
  for (const area of hostile) assert.equal((await refused(query, { area }))[0], 400, area.slice(0, 50))

  const ring = Array.from({ length: 20_000 }, (_, i) => {
    const angle = (i * 2 * Math.PI * 7001) / 20_000
    return [7 + Math.cos(angle) * (1 + (i % 7) / 10), 46 + Math.sin(angle)]
  })
  const star = JSON.stringify({ type: 'Polygon', coordinates: [[...ring, ring[0]]] })
  assert.ok(star.length > 500_000)
  assert.deepEqual(await refused(query, { area: star }), [400, 'invalid within parameter: edges cross each other'])
  const { status } = await api.call('POST /api/graphql', { json: { query, variables: { area: star + star } } })
  assert.equal(status, 413)
})
