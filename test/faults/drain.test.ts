import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { test } from 'node:test'
import { eventually, spawnServer } from '../kit.ts'

type Outcome = { status: number } | { refused: string }

/** One GET over a kept connection. */
const get = (url: string, agent: Agent): Promise<Outcome> =>
  new Promise((resolve) => {
    const asked = request(url, { agent }, (answer) => {
      answer.resume().once('end', () => resolve({ status: answer.statusCode ?? 0 }))
      answer.once('error', (error) => resolve({ refused: `cut off: ${error.message}` }))
    })
    asked.once('error', (error: NodeJS.ErrnoException) => {
      // RFC 9112 section 9.3.1: a kept connection may close under a request, which is then sent again on a new one.
      if (error.code === 'ECONNRESET' && asked.reusedSocket) resolve(get(url, agent))
      else resolve({ refused: error.code ?? error.message })
    })
    asked.end()
  })

// Who waited for clients to leave would wait ten times longer than the test.
test('a server told to stop under load cuts nobody off and is gone in time', { timeout: 60_000 }, async () => {
  const server = await spawnServer({ config: { 'server.shutdown_timeout': 600 } })
  const outcomes: Outcome[] = []
  let stopping = false
  const clients = Array.from({ length: 8 }, async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    while (!stopping) {
      const outcome = await get(`${server.url}/health`, agent)
      outcomes.push(outcome)
      if ('refused' in outcome) break
    }
    agent.destroy()
  })
  await eventually(() => assert.ok(outcomes.length > 200))
  await server.kill('SIGTERM')
  stopping = true
  await Promise.all(clients)
  assert.equal(server.child.exitCode, 0)
  const statuses = new Set(outcomes.map((outcome) => ('status' in outcome ? outcome.status : outcome.refused)))
  for (const unexpected of [200, 503, 'ECONNREFUSED']) statuses.delete(unexpected)
  assert.deepEqual([...statuses], [])
})
