import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../../test/kit/eventually.ts'
import { startServer } from '../../../test/kit/kit.ts'

test('figures of this moment count the requests of callers, not those of the operator', async () => {
  const api = await startServer()
  await api.sql('create table notes (id int primary key)')
  await api.call('POST /api/admin/sql', { as: 'admin', json: { query: 'create table reloaded ()' } })
  const figures = async () => (await api.call('GET /api/admin/figures', { as: 'admin' })).body
  const before = await figures()
  await api.call('GET /health')
  await api.call('GET /api/admin/stats', { as: 'admin' })
  for (let n = 0; n < 3; n++) await api.call('GET /api/collections/notes')
  await eventually(async () => assert.equal((await figures()).requests.total - before.requests.total, 3))
  const { requests, connections, queues, memory_bytes: memory, ...rest } = await figures()
  assert.equal(requests.errors, 0)
  assert.equal(requests.durations.at(-1).seconds, null)
  assert.equal(requests.durations.at(-1).count, requests.total)
  assert.ok(connections.max > 0 && connections.in_use + connections.idle <= connections.max)
  assert.deepEqual(queues, { webhooks: 0, jobs: 0 })
  assert.ok(memory > 1_000_000)
  assert.deepEqual(Object.keys(rest).sort(), ['at', 'change_log_lag_seconds', 'processes', 'realtime_connections'])
  assert.equal((await api.call('GET /api/admin/figures')).status, 401)
  const off = await startServer({ on: api, config: { 'metrics.enabled': false } })
  assert.equal((await off.call('GET /api/admin/figures', { as: 'admin' })).body.requests, null)
})
