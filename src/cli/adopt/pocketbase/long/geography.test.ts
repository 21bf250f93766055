import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { after, test } from 'node:test'
import { adopting } from '../../../../../test/kit/adopt.ts'
import { withoutExtensions } from '../../../../../test/kit/cluster.ts'
import { startServer } from '../../../../../test/kit/kit.ts'
import { dataFolder } from '../../../../../test/kit/pocketbase.ts'
import { adoptPocketbase } from '../pocketbase.ts'

test('a point has a geography beside it where PostGIS is', { skip: withoutExtensions }, async () => {
  const folder = dataFolder([
    {
      id: 'places000000000',
      name: 'places',
      fields: [{ name: 'spot', type: 'geoPoint' }],
      rules: { list: 'spot.lat > 0', view: 'spot.lat > 0' },
      rows: [
        { id: 'sofia', spot: '{"lon":23.32,"lat":42.69}' },
        { id: 'plovdiv', spot: '{"lon":24.75,"lat":42.14}' },
        { id: 'nowhere', spot: '{"lon":0,"lat":0}' },
      ],
    },
    {
      id: 'homes0000000000',
      name: 'homes',
      fields: [
        { name: 'title', type: 'text' },
        { name: 'spot', type: 'geoPoint', hidden: true },
      ],
      rules: { list: '', view: '' },
      rows: [{ id: 'ana', title: 'Ana', spot: '{"lon":23.32,"lat":42.69}' }],
    },
  ])
  after(() => rmSync(folder, { recursive: true, force: true }))
  const api = await startServer({ postgres: 'extensions' })
  await api.sql('create extension if not exists postgis')
  for (const rows of [4, 0])
    assert.equal((await adopting(adoptPocketbase, api.databaseUrl, [folder], { apply: true })).done?.['rows'], rows)
  assert.deepEqual(
    await api.sql(
      `select id, round(st_distance(spot_geography, st_makepoint(23.32, 42.69)::geography) / 1000)::text as km from public.places order by id`,
    ),
    [
      { id: 'nowhere', km: null },
      { id: 'plovdiv', km: '133' },
      { id: 'sofia', km: '0' },
    ],
  )
  const near = await api.call('GET /api/collections/places?near=spot_geography,23.32,42.69,50000')
  assert.equal(near.status, 200, near.text)
  assert.deepEqual(
    near.body.items.map(({ id }: { id: string }) => id),
    ['sofia'],
  )
  // Where a point is hidden, its place is too.
  const homes = await api.call('GET /api/collections/homes')
  assert.deepEqual([homes.status, homes.body.items], [200, [{ id: 'ana', title: 'Ana' }]], homes.text)
})
