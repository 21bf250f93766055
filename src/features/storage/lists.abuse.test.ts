import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from '../../../test/kit/at-end.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { openConnection } from '../../db/protocol/driver.ts'
import { stepOf } from '../../db/protocol/flight.ts'
import { listObjects } from './objects/sql.ts'

const api = await startServer()
const [ada, bob] = [await api.signUp('ada@example.test'), await api.signUp('bob@example.test')]
await api.call('POST /api/admin/storage/buckets', { as: 'admin', json: { name: 'vault', public: false } })
const COUNT = 3_000
// Names like nnn0001, of Bob except for each hundredth, which is Ada's or without owner.
await api.sql(`with made as (select gen_random_uuid() as id, i from generate_series(1, ${COUNT}) i),
  blobs as (insert into svc.blobs (id, size, sha256) select id, 1, 'x' from made)
  insert into svc.objects (bucket, name, content_type, blob_id, size, sha256, owner, is_operators)
  select b, n, 'text/plain', id, 1, 'x', case i % 200 when 0 then '${ada.user.id}'::uuid when 100 then null else '${bob.user.id}'::uuid end,
    i = 100
  from made, unnest(array['open', 'vault']) b, lateral (select 'n' || to_char(i, 'FM0000') as n) n`)
await api.sql('vacuum analyze svc.objects')
// As for a table that is worth an index.
for (const scan of ['seqscan', 'bitmapscan']) await api.sql(`set enable_${scan} = off`)

const listed = async (path: string, as?: string) => {
  const { status, body } = await api.call(`GET /api/storage/${path}`, as === undefined ? {} : { as })
  assert.equal(status, 200)
  return [body.items.map(({ name }: { name: string }) => name), body.totalItems]
}

test('a page begins behind a name, a count or at a prefix, and its total is that of all matches', async () => {
  assert.deepEqual(await listed('open?limit=2'), [['n0001', 'n0002'], COUNT])
  assert.deepEqual(await listed('open?limit=2&after=n0002'), [['n0003', 'n0004'], COUNT])
  assert.deepEqual(await listed('open?limit=2&offset=2998'), [['n2999', 'n3000'], COUNT])
  assert.deepEqual(await listed('open?limit=1&prefix=n29&after=n2949'), [['n2950'], 100])
  assert.deepEqual(await listed('open?prefix=n%25'), [[], 0])
  assert.deepEqual(await listed('vault?limit=3', ada.token), [['n0200', 'n0300', 'n0400'], 29])
  assert.deepEqual(await listed('vault?limit=2&after=n0300', ada.token), [['n0400', 'n0500'], 29])
  assert.deepEqual(await listed('vault?limit=1&offset=28', ada.token), [['n3000'], 29])
  assert.deepEqual(await listed('vault?limit=1', 'admin'), [['n0001'], COUNT])
})

type Plan = {
  'Node Type': string
  'Relation Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  Plans?: Plan[]
}
const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]

test('a page makes as many objects as it shows, whatever the bucket holds', async () => {
  for (const [bucket, userId] of [
    ['open', null],
    ['vault', ada.user.id],
  ] as const) {
    const page = { prefix: '', after: '', limit: 1, offset: 0, seesAll: false, baseUrl: '' }
    const { text, values } = stepOf(listObjects({ ...page, bucket, userId }))
    const [row] = await api.sql(`explain (analyze, format json) ${text}`, values as unknown[])
    const plan = row['QUERY PLAN']
    const [{ Plan: root }] = typeof plan === 'string' ? JSON.parse(plan) : plan
    const made = nodesOf(root).filter(
      (node) => node['Relation Name'] === 'objects' && node['Node Type'] !== 'Index Only Scan',
    )
    const rows = made.reduce((sum, node) => sum + node['Actual Rows'] * node['Actual Loops'], 0)
    assert.ok(rows <= 2, `${rows} objects of ${bucket} were made`)
  }
})

test('lists of one caller count names one after the other, and keep no other caller waiting', async () => {
  const locker = await openConnection({ url: api.databaseUrl })
  atEnd(() => locker.end())
  await locker.query('begin; lock table svc.objects in access exclusive mode')
  const atWork = async () => {
    const [{ count }] = await api.sql(`select count(*)::int as count from pg_stat_activity
      where wait_event_type = 'Lock' and datname = current_database()`)
    return Number(count)
  }
  const lists = [
    ...Array.from({ length: 10 }, () => listed('open?limit=1')),
    ...Array.from({ length: 10 }, () => listed('open?limit=1', ada.token)),
  ]
  await eventually(async () => assert.equal(await atWork(), 2))
  assert.equal(await atWork(), 2)
  await locker.query('rollback')
  for (const list of await Promise.all(lists)) assert.deepEqual(list, [['n0001'], COUNT])
})
