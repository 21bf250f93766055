import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { withoutExtensions } from '../../../../../../test/kit/cluster.ts'
import {
  type Answer,
  eventually,
  type InProcessServer,
  type SignedUp,
  startServer,
} from '../../../../../../test/kit/kit.ts'
import { scansDuring } from '../../../../../../test/kit/scans.ts'
import { snapshotOf } from '../../../../../../test/kit/snapshot.ts'
import { ANONYMOUS } from '../../../../../core/identity.ts'
import { SqlCache } from '../../../../../db/rows/sql-cache.ts'
import { viewerOf } from '../../../../../db/schema/viewer.ts'
import { Candidates } from '../../../../../db/search/candidates.ts'
import { listStatement } from '../../list.ts'

let api: InProcessServer
let ana: SignedUp
let bo: SignedUp

const COLUMNS = ['round', 'flat', 'bare', 'mercator']
const AREA = JSON.stringify({
  type: 'Polygon',
  coordinates: [
    [
      [7, 46],
      [7.5, 46],
      [7.5, 46.5],
      [7, 46.5],
      [7, 46],
    ],
  ],
})
const filters = (column: string): [string, string][] => [
  ['near', `${column},7.2,46.2,5000`],
  ['within', `${column},${AREA}`],
  ['intersects', `${column},${AREA}`],
  ['bbox', `${column},7,46,7.5,46.5`],
]

/** A place for every half degree, so that few are in any one neighbourhood. */
const PLACES = `select st_setsrid(st_makepoint(x / 2.0 - 170, y / 2.0 - 70), 4326) as p
  from generate_series(0, 679) x, generate_series(0, 279, 4) y`

before(async () => {
  if (withoutExtensions) return
  api = await startServer({ postgres: 'extensions' })
  ana = await api.signUp('ana@example.com')
  bo = await api.signUp('bo@example.com')
  const columns = `id int generated always as identity primary key, owner uuid, round geography(Point),
    flat geometry(Point, 4326), bare geometry, mercator geometry(Point, 3857), meaning real[] default '{1,0}'`
  for (const table of ['open_places', 'own_places']) {
    await api.sql(`create extension if not exists postgis; create table ${table} (${columns})`)
    await api.sql(
      `insert into ${table} (owner, round, flat, bare, mercator)
       select case when random() < 0.01 then $1::uuid else $2::uuid end, p, p, p, st_transform(p, 3857) from (${PLACES}) places`,
      [ana.user.id, bo.user.id],
    )
    await api.sql(
      `insert into ${table} (owner, round, flat, bare, mercator)
       select o.owner, p, p, p, st_transform(p, 3857)
       from unnest(array[$1, $2]::uuid[]) o(owner), st_setsrid(st_makepoint(7.2, 46.2), 4326) as p`,
      [ana.user.id, bo.user.id],
    )
    for (const column of COLUMNS) await api.sql(`create index ${table}_${column} on ${table} using gist (${column})`)
  }
  await api.sql(`analyze open_places; analyze own_places; grant select on open_places, own_places to svc_anon, svc_authenticated;
    alter table own_places enable row level security;
    create table visits (id int primary key, place_id int references own_places);
    insert into visits select 1, min(id) from own_places where owner = '${ana.user.id}' and st_dwithin(flat, 'srid=4326;point(7.2 46.2)', 0.01);
    create policy own on own_places using (owner = (select nullif(current_setting('svc.user_id', true), '')::uuid))`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/own_places')).status, 200))
})

const scans = async (): Promise<Map<string, number>> => {
  const rows = await api.sql(`select indexrelname, idx_scan from pg_stat_user_indexes where relname = 'own_places'`)
  return new Map(rows.map(({ indexrelname, idx_scan }) => [indexrelname, Number(idx_scan)]))
}

test('spatial filters are found by the GiST index of the column', { skip: withoutExtensions }, async () => {
  const schema = await snapshotOf(api.databaseUrl)
  const table = schema.tables.get('public.open_places')
  assert.ok(table)
  const place = { schema, table, viewer: viewerOf(ANONYMOUS) }
  const means = { candidates: new Candidates(''), textSearchConfig: { schema: 'pg_catalog', name: 'english' } }
  for (const column of COLUMNS) {
    for (const [name, value] of filters(column)) {
      const { text, values } = listStatement(new SqlCache(), { [name]: value }, place, means).statement.render()
      const plan = await api.sql(`explain ${text}`, [...values])
      const lines = plan.map((row) => row['QUERY PLAN']).join('\n')
      assert.match(lines, new RegExp(`open_places_${column}\\b`), `${name} ${column}: ${lines}`)
      assert.doesNotMatch(lines, /Seq Scan on open_places/, `${name} ${column}`)
    }
  }
})

test('a policy keeps nobody from the index, and the index tells nobody of other rows', {
  skip: withoutExtensions,
}, async () => {
  const before = await scans()
  for (const column of COLUMNS) {
    for (const [name, value] of filters(column)) {
      const query = new URLSearchParams({ [name]: value, sort: `${column}.distance(7.2,46.2)`, fields: 'owner' })
      const { status, body } = await api.call(`GET /api/collections/own_places?${query}`, { as: ana.token })
      assert.equal(status, 200, JSON.stringify(body))
      assert.equal(body.totalItems, body.items.length)
      assert.ok(body.items.every(({ owner }: { owner: string }) => owner === ana.user.id))
      assert.ok(body.items[0]._distance < 0.01, `${name} ${column}`)
    }
  }
  // A backend reports its counters up to ten seconds after it became idle.
  const isReported = async () => {
    const now = await scans()
    for (const column of COLUMNS) {
      const index = `own_places_${column}`
      const count = (now.get(index) ?? 0) - (before.get(index) ?? 0)
      assert.ok(count >= filters(column).length, `${column} is used ${count} times of ${filters(column).length}`)
    }
  }
  await eventually(isReported)
  const anyone = await api.call('GET /api/collections/own_places?near=flat,7.2,46.2,5000')
  assert.deepEqual([anyone.status, anyone.body.totalItems ?? anyone.body.message], [200, 0])
})

test('whoever reads rows of a filter gets them by the index', { skip: withoutExtensions }, async () => {
  const near = 'near=flat,7.2,46.2,5000'
  const read = (path: string) => api.call(`GET /api/collections/${path}`, { as: ana.token })
  const ask = (query: string) => api.call('POST /api/graphql', { as: ana.token, json: { query } })
  const own = ({ body }: Answer) => body.items.map(({ owner }: { owner: string }) => owner)
  const first = await scansDuring(api, 'own_places_flat', () =>
    read(`own_places?cursor=&total=exact&facets=owner&perPage=1&${near}`),
  )
  assert.deepEqual([own(first), first.body.totalItems, first.body.nextCursor], [[ana.user.id], 1, null])
  assert.deepEqual(first.body.facets, { owner: [{ value: ana.user.id, count: 1 }] })
  const wide = 'bbox=flat,-60,-40,60,60'
  const begun = await read(`own_places?cursor=&sort=-id&perPage=3&${wide}`)
  const next = await scansDuring(api, 'own_places_flat', () =>
    read(`own_places?cursor=${begun.body.nextCursor}&sort=-id&perPage=500&${wide}`),
  )
  const all = await read(`own_places?sort=-id&perPage=500&${wide}`)
  const ids = ({ body }: Answer) => body.items.map(({ id }: { id: number }) => id)
  assert.deepEqual([...ids(begun), ...ids(next)].slice(0, 500), ids(all))
  const counted = await scansDuring(api, 'own_places_flat', () =>
    read(`own_places?aggregate=count,max(id)&group=owner&${near}`),
  )
  assert.deepEqual(
    counted.body.items.map(({ owner, count }: { owner: string; count: number }) => [owner, count]),
    [[ana.user.id, 1]],
  )
  const exported = await scansDuring(api, 'own_places_flat', () =>
    read(`own_places/export.ndjson?fields=owner&${near}`),
  )
  assert.equal(exported.text, `{"owner":"${ana.user.id}"}\n`)
  const nearest = await scansDuring(api, 'own_places_flat', () =>
    read(`own_places?nearest=[1,0]&vector_column=meaning&${near}`),
  )
  assert.deepEqual([own(nearest), nearest.body.totalItems], [[ana.user.id], 1])
  const listed = await scansDuring(api, 'own_places_flat', () =>
    ask('{ own_places(near: {flat: "7.2,46.2,5000"}, order_by: [{id: DESC}]) { owner visits { id } } }'),
  )
  assert.deepEqual(listed.body.data, { own_places: [{ owner: ana.user.id, visits: [{ id: 1 }] }] })
})

test('who may read some columns alone finds places by them, with a policy and an index too', {
  skip: withoutExtensions,
}, async () => {
  await api.sql(`create table hidden_owners (id int primary key, owner uuid, flat geometry(Point, 4326));
    insert into hidden_owners select id, owner, flat from own_places;
    create index on hidden_owners using gist (flat);
    alter table hidden_owners enable row level security;
    create policy all_of_it on hidden_owners using (true);
    revoke select on hidden_owners from svc_anon, svc_authenticated;
    grant select (id, flat) on hidden_owners to svc_anon, svc_authenticated`)
  const near = 'near=flat,7.2,46.2,5000'
  await eventually(async () => {
    const { status, body } = await api.call(`GET /api/collections/hidden_owners?fields=id&${near}`)
    assert.deepEqual([status, body.totalItems], [200, 2])
  })
  const query = '{ hidden_owners(near: {flat: "7.2,46.2,5000"}) { id } }'
  const { body } = await api.call('POST /api/graphql', { json: { query } })
  assert.equal(body.data?.hidden_owners.length, 2, JSON.stringify(body))
})
