import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { createHealth } from './routes.ts'

test('a running server with its database is healthy', async () => {
  const api = await startServer()
  const { status, body } = await api.call('GET /health')
  assert.equal(status, 200)
  assert.deepEqual(body, { status: 'ok', database: 'ok' })
})

test('without a database it is degraded, and before its end it is draining', async () => {
  let state: 'ok' | 'unreachable' = 'unreachable'
  let draining = false
  const { routes } = createHealth({ databaseState: () => state, draining: () => draining })
  const ask = async () => await routes[0]?.run({} as never)
  assert.deepEqual(await ask(), { status: 503, json: '{"status":"degraded","database":"unreachable"}' })
  state = 'ok'
  draining = true
  assert.deepEqual(await ask(), { status: 503, json: '{"status":"draining"}' })
})
