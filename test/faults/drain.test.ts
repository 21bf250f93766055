import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test } from 'node:test'
import { eventually, spawnServer } from '../kit/kit.ts'
import { get, type Outcome } from './kept-connection.ts'

// Who waited for clients to leave would wait longer than the test.
test('a server told to stop under load cuts nobody off and is gone in time', { timeout: 280_000 }, async () => {
  const server = await spawnServer({ config: { 'server.shutdown_timeout': 600 } })
  const outcomes: Outcome[] = []
  let stopping = false
  const clients = Array.from({ length: 8 }, async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    while (!stopping) {
      const outcome = await get(`${server.url}/health`, agent)
      outcomes.push(outcome)
      if (typeof outcome === 'string') break
    }
    agent.destroy()
  })
  await eventually(() => assert.ok(outcomes.length > 200))
  await server.kill('SIGTERM')
  stopping = true
  await Promise.all(clients)
  assert.equal(server.child.exitCode, 0)
  const statuses = new Set(outcomes)
  for (const expected of [200, 503, 'ECONNREFUSED']) statuses.delete(expected)
  assert.deepEqual([...statuses], [])
})
