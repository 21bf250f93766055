import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { test } from 'node:test'
import { eventually } from '../../../test/kit/eventually.ts'
import { parseRaw, route, serve } from '../../../test/kit/http.ts'
import { json } from '../route.ts'

/** A server with one route that answers when told to. */
async function withSlowRoute(shutdownTimeoutSeconds: number) {
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  let waiting = 0
  let isDraining = false
  const api = await serve(
    [
      route('GET /slow', {
        auth: 'none',
        handle: async () => {
          waiting++
          await held
          return json(200, { done: true })
        },
      }),
      route('GET /health', { auth: 'none', handle: () => json(isDraining ? 503 : 200, {}) }),
    ],
    {
      shutdownTimeoutSeconds,
      onDrain: () => {
        isDraining = true
      },
    },
  )
  return { api, release: () => release(), waiting: () => waiting, isDraining: () => isDraining }
}

test('requests in flight finish, on connections that then close; new connections are refused', async () => {
  const { api, release, waiting, isDraining } = await withSlowRoute(3600)
  const answers = Array.from({ length: 10 }, () => fetch(`${api.url}/slow`))
  await eventually(() => assert.equal(waiting(), 10))
  const closed = api.server.stop()
  assert.equal(isDraining(), true)
  await assert.rejects(fetch(`${api.url}/health`))
  release()
  for (const answer of await Promise.all(answers)) {
    assert.equal(answer.status, 200)
    assert.equal(answer.headers.get('connection'), 'close')
    assert.deepEqual(await answer.json(), { done: true })
  }
  await closed
})

test('idle connections are closed, so a drain without work does not wait for its timeout', async () => {
  const { api } = await withSlowRoute(3600)
  await (await fetch(`${api.url}/health`)).text()
  const idle = connect(api.port, '127.0.0.1')
  idle.write('GET /health HTTP/1.1\r\nHost: x\r\n\r\n')
  await once(idle, 'data')
  await Promise.all([api.server.stop(), once(idle, 'close')])
})

test('a request that was on its way when the drain began is answered', async () => {
  const { api } = await withSlowRoute(3600)
  const socket = connect(api.port, '127.0.0.1')
  await once(socket, 'connect')
  await eventually(async () => assert.equal((await fetch(`${api.url}/health`)).status, 200))
  const closed = api.server.stop()
  socket.write('GET /health HTTP/1.1\r\nHost: x\r\n\r\n')
  const [data] = await once(socket, 'data')
  const { status, headers } = parseRaw(String(data))
  assert.equal(status, 503)
  assert.equal(headers.get('connection'), 'close')
  await closed
})

test('what does not finish in time is cut off and the drain ends', async () => {
  const { api, waiting } = await withSlowRoute(1)
  const stuck = fetch(`${api.url}/slow`).catch((error: Error) => error)
  await eventually(() => assert.equal(waiting(), 1))
  await api.server.stop()
  assert.ok((await stuck) instanceof Error)
})

test('streams are told to end when the drain begins', async () => {
  const streams: ServerResponse[] = []
  const onDrain = () => {
    for (const stream of streams) {
      stream.end('retry: 100\n\n')
    }
  }
  const events = route('GET /events', {
    auth: 'none',
    handle: async ({ raw }) => {
      streams.push(raw.response)
      raw.response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      raw.response.write(': hello\n\n')
      return { status: 200, streaming: true }
    },
  })
  const api = await serve([events], { onDrain, shutdownTimeoutSeconds: 3600 })
  const readers = await Promise.all(Array.from({ length: 5 }, () => fetch(`${api.url}/events`)))
  await api.server.stop()
  for (const reader of readers) assert.equal(await reader.text(), ': hello\n\nretry: 100\n\n')
})
