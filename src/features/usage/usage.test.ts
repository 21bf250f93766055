import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listenTo } from '../../../test/event-stream.ts'
import { eventually, spawnServer, startServer } from '../../../test/kit.ts'
import { NO_TENANT, UsageMeter } from '../../core/metering/usage-meter.ts'

const api = await startServer()
const other = await startServer({ on: api })
const { user, token } = await api.signUp('ana@x.test')
await api.sql(`create table notes (id int primary key, body text); insert into notes values (1, repeat('x', 1000));
  create function one() returns int language sql as 'select 1'`)
const app = (await api.call('POST /api/admin/apps', { as: 'admin', json: { name: 'Pride', ownerUserId: user.id } }))
  .body
const { key } = (
  await api.call('POST /api/admin/api-keys', { as: 'admin', json: { userId: user.id, name: 'k', appId: app.id } })
).body

const usage = (path = '') => api.call(`GET /api/admin/usage${path}`, { as: 'admin' })
const today = new Date().toISOString().slice(0, 10)

test('requests, bytes and calls of two servers add up under their app', async () => {
  for (let i = 0; i < 6; i++) await (i % 2 ? api : other).call('GET /api/collections/notes', { as: key })
  await api.call('POST /api/rpc/one', { as: key })
  await other.call('GET /api/collections/nothing', { as: key })
  await eventually(
    async () => {
      const { items, total } = (await usage()).body
      assert.equal(total, 2)
      const row = items.find(({ tenantId }: { tenantId: string }) => tenantId === app.id)
      assert.equal(row.tenantName, 'Pride')
      assert.deepEqual([row.requestCount, row.functionInvocations], [8, 1])
      assert.ok(row.bandwidthBytes > 6_000, String(row.bandwidthBytes))
    },
    { seconds: 30 },
  )
  const breakdown = (await usage('/breakdown?metric=api_requests&group_by=endpoint&limit=100')).body
  const byKey = new Map(breakdown.items.map(({ key: name, value }: { key: string; value: number }) => [name, value]))
  assert.equal(byKey.get('POST /api/rpc/{function}'), 1)
  assert.equal(byKey.get('GET /api/collections/{table}'), 7)
  const statuses = (await usage('/breakdown?metric=api_requests&group_by=status_code')).body.items
  assert.ok(statuses.some(({ key: status }: { key: string }) => status === '404'))
  const tenants = (await usage('/breakdown?metric=bandwidth_bytes')).body
  assert.deepEqual([tenants.groupBy, tenants.items.length], ['tenant', 2])

  const trend = (await usage('/trends?metric=api_requests&granularity=hour&period=day')).body
  assert.ok(trend.items.at(-1).value >= 8)
  const one = (await usage(`/${app.id}?period=week`)).body
  assert.deepEqual(
    [one.tenantId, one.period, one.plan, one.totals.apiRequests, one.data[0].date],
    [app.id, 'week', 'unlimited', 8, today],
  )
  assert.deepEqual(one.limits, {
    apiRequests: null,
    storageBytesUsed: null,
    bandwidthBytes: null,
    functionInvocations: null,
  })
  const limits = (await usage(`/${app.id}/limits`)).body
  assert.deepEqual(limits.metrics.api_requests, { limit: null, used: 8, remaining: null })
  const past = (await usage('?from=2020-01-01&to=2020-01-02')).body.items
  assert.ok(past.every(({ requestCount }: { requestCount: number }) => requestCount === 0))
})

test('streams that are open at once are counted over all processes', async () => {
  const streams = await Promise.all([api, api, other].map((server) => listenTo(server.url, { token })))
  await eventually(
    async () => {
      const row = (await usage()).body.items.find(({ tenantId }: { tenantId: string }) => tenantId === NO_TENANT)
      assert.equal(row.realtimePeakConnections, 3)
    },
    { seconds: 30 },
  )
  for (const stream of streams) stream.close()
})

test('what a process counted is written when it stops', async () => {
  const third = await spawnServer({ on: api })
  for (let i = 0; i < 5; i++) await third.call('GET /api/collections/notes?perPage=7', { as: key })
  await third.stop()
  const { items } = (await usage('/breakdown?metric=api_requests&group_by=endpoint&limit=100')).body
  const row = items.find(({ key: name }: { key: string }) => name === 'GET /api/collections/{table}')
  assert.equal(row.value, 12)
})

test('a batch that could not be written is counted with the next one', () => {
  const meter = new UsageMeter()
  meter.request(null, 'GET', '/a', 200, 10)
  const lost = meter.take()
  meter.request(null, 'GET', '/a', 200, 5)
  meter.giveBack(lost)
  const { tenants, endpoints } = meter.take()
  assert.deepEqual(tenants.get(NO_TENANT), { requests: 2, bandwidth: 15, functions: 0, jobRuns: 0, streamPeak: 0 })
  assert.deepEqual([...endpoints.values()], [{ tenant: NO_TENANT, endpoint: 'GET /a', status: 200, requests: 2 }])
})

test('what cannot be asked is refused', async () => {
  const cases: [string, number, string][] = [
    ['?period=year', 400, 'invalid period'],
    ['?from=2026-01-01', 400, 'invalid date range'],
    ['?from=2026-02-30&to=2026-03-01', 400, 'invalid date range'],
    ['?from=2026-02-02&to=2026-02-01', 400, 'invalid date range'],
    ['?sort=secret', 400, 'invalid sort'],
    ['?limit=501', 400, 'invalid limit'],
    ['/trends', 400, 'metric is required'],
    ['/trends?metric=x', 400, 'invalid metric'],
    ['/trends?metric=bandwidth_bytes&granularity=hour', 400, 'invalid granularity'],
    ['/breakdown?metric=storage_bytes&group_by=endpoint', 400, 'invalid group_by'],
    ['/nobody', 400, 'invalid tenant_id format'],
    ['/11111111-1111-4111-8111-111111111111', 404, 'tenant not found'],
    ['/11111111-1111-4111-8111-111111111111/limits', 404, 'tenant not found'],
  ]
  for (const [path, status, message] of cases) {
    const answer = await usage(path)
    assert.deepEqual([answer.status, answer.body.message], [status, message], path)
  }
  for (const sort of ['tenant_name', '-bandwidth_bytes', '%2Bjob_runs', 'tenant_id'])
    assert.equal((await usage(`?sort=${sort}`)).status, 200)
  const off = await startServer({ on: api, config: { 'usage.enabled': false } })
  const answer = await off.call('GET /api/admin/usage', { as: 'admin' })
  assert.deepEqual([answer.status, answer.body.message], [503, 'usage service not configured'])
})
