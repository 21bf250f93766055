import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutExtensions } from '../../../../test/kit/cluster.ts'
import { startServer } from '../../../../test/kit/kit.ts'

const TYPES = { csv: 'text/csv', json: 'application/json', ndjson: 'application/x-ndjson' }

test('places and vectors come back equal from a file, in the same bytes', { skip: withoutExtensions }, async () => {
  const api = await startServer({ postgres: 'extensions' })
  await api.sql(`
    create extension if not exists postgis; create extension if not exists vector;
    create table spots (id int primary key, at geometry(Point, 4326), area geometry, world geography, v vector(3), h halfvec(2));
    insert into spots select i, st_setsrid(st_makepoint(i / 7.0, -i / 3.0), 4326),
      case when i % 2 = 0 then st_setsrid(st_makeenvelope(i, 0, i + 1.5, 2), 4326) end,
      st_setsrid(st_makepoint(i * 1.1, 10), 4326)::geography, array[i / 3.0, -1e-7, 5]::vector,
      case when i % 3 > 0 then array[0.5, i]::halfvec end
    from generate_series(1, 40) i;
    create table copy (like spots including all)`)
  for (const [format, type] of Object.entries(TYPES)) {
    await api.sql('truncate copy')
    const first = await api.call(`GET /api/collections/spots/export.${format as 'csv'}`)
    assert.equal(first.status, 200)
    const imported = await api.call('POST /api/collections/copy/import', {
      body: first.text,
      headers: { 'content-type': type },
    })
    assert.deepEqual([imported.status, imported.body.created], [200, 40], format)
    const second = await api.call(`GET /api/collections/copy/export.${format as 'csv'}`)
    assert.equal(second.text, first.text, format)
    const different = await api.sql('select s.id from spots s join copy c using (id) where s.v <> c.v or s.h <> c.h')
    assert.deepEqual(different, [], format)
  }
})
