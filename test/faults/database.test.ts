import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startPrivateCluster } from '../kit/cluster.ts'
import { eventually, startServer } from '../kit/kit.ts'
import { ROUNDS } from './rounds.ts'

const SELECT_ONE = { as: 'admin', json: { query: 'select 1' } } as const

test('PostgreSQL killed under load: 503 with Retry-After at once, then 200 again without a restart', async () => {
  const cluster = await startPrivateCluster()
  const api = await startServer({ config: { 'database.url': cluster.url, 'database.acquire_timeout': 10 } })
  const token = await api.adminToken()
  const statuses = new Map<number, number>()
  let stop = false
  const client = async () => {
    while (!stop) {
      // What hangs fails; refused is refused at once, however busy the machine.
      const signal = AbortSignal.timeout(60_000)
      const { status, headers, body } = await api.call('GET /api/admin/apps', { as: token, signal })
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (status === 503) {
        assert.equal(headers.get('retry-after'), '1')
        assert.deepEqual(body, { code: 503, error: 'database_unavailable', message: 'database unavailable' })
      }
    }
  }
  const clients = Promise.all(Array.from({ length: 8 }, client))
  for (let round = 0; round < ROUNDS; round++) {
    await eventually(async () => assert.equal((await api.call('GET /health')).status, 200))
    const before = statuses.get(503) ?? 0
    cluster.kill()
    await eventually(() => assert.ok((statuses.get(503) ?? 0) > before, 'the outage was noticed'))
    const worked = statuses.get(200) ?? 0
    await eventually(() => assert.ok((statuses.get(200) ?? 0) > worked + 20, 'requests are served again'))
  }
  stop = true
  await clients
  assert.deepEqual([...statuses.keys()].sort(), [200, 503])
  const { status } = await api.call('POST /api/admin/sql', SELECT_ONE)
  assert.equal(status, 200)
})

test('a PostgreSQL that hangs: /health turns, requests end with 503, and all is well after it wakes', async () => {
  const cluster = await startPrivateCluster()
  const api = await startServer({ config: { 'database.url': cluster.url, 'database.acquire_timeout': 5 } })
  const token = await api.adminToken()
  await eventually(async () => assert.equal((await api.call('GET /api/admin/apps', { as: token })).status, 200))
  cluster.signalAll('SIGSTOP')
  try {
    const hanging = api.call('GET /api/admin/apps', { as: token })
    await eventually(async () => assert.equal((await api.call('GET /health')).status, 503))
    const { body } = await api.call('GET /health')
    assert.deepEqual(body, { status: 'degraded', database: 'unreachable' })
    assert.equal((await api.call('GET /api/admin/apps', { as: token })).status, 503)
    assert.equal((await hanging).status, 503)
  } finally {
    cluster.signalAll('SIGCONT')
  }
  await eventually(async () => assert.equal((await api.call('GET /api/admin/apps', { as: token })).status, 200))
  await eventually(async () => assert.equal((await api.call('GET /health')).status, 200))
})
