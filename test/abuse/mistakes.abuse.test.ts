import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Column, Table } from '../../src/db/schema/snapshot.ts'
import { readerOf } from '../../src/features/collections/bulk/records.ts'
import { createOutgoing } from '../../src/http/out/outgoing.ts'
import { createLimiter } from '../../src/http/rate-limit.ts'
import { json } from '../../src/http/route.ts'
import { route, serve } from '../kit/http.ts'

/** As a mistake in our own code throws it. */
const mistake = (): never => {
  throw new TypeError('x is not a function')
}

test('a mistake of ours is 500 with its stack in the log, whatever it happened in', async () => {
  const places: Record<string, () => Promise<unknown>> = {
    'while a request is counted': () =>
      createLimiter({ counters: { add: async () => mistake() } }).takeToken('a', 'b', { max: 1, seconds: 1 }),
    'while a row of an import is read': async () => {
      const columns = new (class extends Map<string, Column> {
        override get = mistake
      })()
      return readerOf('application/x-ndjson', { columns } as unknown as Table).read('{"id":1}\n')
    },
    'while a request is sent': async () => {
      const outgoing = createOutgoing({ allowPrivateNetworks: true })
      const headers = new Proxy({}, { ownKeys: mistake })
      const url = 'http://127.0.0.1:65000/'
      await outgoing
        .request({ method: 'GET', url, headers, timeoutMs: 1000, maxBytes: 1 })
        .finally(() => outgoing.stop())
    },
  }
  const routes = Object.values(places).map((happen, i) =>
    route(`GET /place${i}`, { auth: 'none', handle: async () => json(200, await happen()) }),
  )
  const { url, observations } = await serve(routes)
  for (const [i, place] of Object.keys(places).entries()) {
    const answer = await fetch(`${url}/place${i}`)
    assert.deepEqual([place, answer.status], [place, 500])
    assert.deepEqual(await answer.json(), { code: 500, error: 'internal', message: 'internal error' })
    assert.match(String(observations.at(-1)?.attrs?.['stack']), /x is not a function[\s\S]*mistakes\.abuse/, place)
  }
})
