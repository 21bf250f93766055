import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { eventually, startServer } from '../kit/kit.ts'

/** A mail gateway that takes its time, and says how often it was asked. */
const asked: string[] = []
const gateway = createServer((request, response) => {
  asked.push(String(request.headers['idempotency-key']))
  request.resume()
  setTimeout(() => response.end(), 1500)
})
await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve))
after(() => void gateway.close().closeAllConnections())

test('a mail under way when the server stops is sent once', async () => {
  const { port } = gateway.address() as AddressInfo
  const config = { 'email.backend': 'webhook', 'email.webhook.url': `http://127.0.0.1:${port}/` }
  const api = await startServer({ config })
  await api.signUp('ana@x.test')
  await eventually(() => assert.equal(asked.length, 1))
  await api.stop()
  const next = await startServer({ on: api, config })
  // Whatever the first left behind comes before this one.
  await next.signUp('bo@x.test')
  await eventually(async () => assert.deepEqual(await next.sql(`select from svc.queue where kind = 'mail'`), []))
  assert.equal(asked.length, 2)
  assert.equal(new Set(asked).size, 2)
})
