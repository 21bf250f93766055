import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, spawnServer, startServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'
import { NO_TENANT, UsageMeter } from '../../core/usage-meter.ts'

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
  await eventually(async () => {
    const { items, total } = (await usage()).body
    assert.equal(total, 2)
    const row = items.find(({ tenantId }: { tenantId: string }) => tenantId === app.id)
    assert.equal(row.tenantName, 'Pride')
    assert.deepEqual([row.requestCount, row.functionInvocations], [8, 1])
    assert.ok(row.bandwidthBytes > 6_000, String(row.bandwidthBytes))
  })
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
  await eventually(async () => {
    const row = (await usage()).body.items.find(({ tenantId }: { tenantId: string }) => tenantId === NO_TENANT)
    assert.equal(row.realtimePeakConnections, 3)
  })
  for (const stream of streams) stream.close()
})

const requestsOf = async (tenant: string): Promise<number> =>
  (await usage()).body.items.find(({ tenantId }: { tenantId: string }) => tenantId === tenant).requestCount

test('a stop loses nothing, kill -9 only what was not written yet, and nothing counts twice', async () => {
  const before = await requestsOf(app.id)
  const [stopped, killed] = await Promise.all([spawnServer({ on: api }), spawnServer({ on: api })])
  const ask = async (server: typeof api | typeof killed, times: number): Promise<void> => {
    for (let i = 0; i < times; i++) await server.call('GET /api/collections/notes?perPage=7', { as: key })
  }
  await Promise.all([ask(stopped, 5), ask(killed, 7)])
  await stopped.stop()
  await eventually(async () => assert.equal(await requestsOf(app.id), before + 12))
  await ask(killed, 3)
  await killed.kill('SIGKILL')
  const next = await spawnServer({ on: api })
  await ask(next, 4)
  await next.stop()
  const counted = (await requestsOf(app.id)) - before
  assert.ok(counted >= 16 && counted <= 19, String(counted))
})

test('stored bytes count for the app whose key stored them, and for nobody else', async () => {
  const put = (fileName: string, bytes: number, as?: string) =>
    upload(api, '/api/storage/files', { fileName, content: 'x'.repeat(bytes), ...(as && { as }) })
  assert.equal((await put('mine.txt', 300, key)).status, 201)
  assert.equal((await put('ours.txt', 50)).status, 201)
  const used = async () => {
    const { items } = (await usage('?sort=-storage_bytes')).body
    return items.map((item: { tenantName: string; storageBytesUsed: number }) => [
      item.tenantName,
      item.storageBytesUsed,
    ])
  }
  assert.deepEqual(await used(), [
    ['Pride', 300],
    ['default', 50],
  ])
  assert.equal((await usage(`/${app.id}`)).body.totals.storageBytesUsed, 300)
  assert.equal((await usage(`/${NO_TENANT}/limits`)).body.metrics.storage_bytes.used, 50)
  assert.equal((await put('mine.txt', 200, key)).status, 201)
  assert.equal((await usage(`/${app.id}`)).body.totals.storageBytesUsed, 200)
  assert.equal((await api.call('DELETE /api/storage/files/mine.txt', { as: key })).status, 204)
  assert.equal((await usage(`/${app.id}`)).body.totals.storageBytesUsed, 0)
})

test('a batch that could not be written is counted with the next one', () => {
  const meter = new UsageMeter()
  meter.request(null, 'GET', '/a', 200, 10)
  const lost = meter.take()
  meter.request(null, 'GET', '/a', 200, 5)
  meter.restore(lost)
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
