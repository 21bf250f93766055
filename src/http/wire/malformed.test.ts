import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { parseRaw, route, sendRaw, serve } from '../../../test/kit/http.ts'
import { generalErrors } from '../../core/errors.ts'
import { json } from '../route.ts'

const api = await serve([
  route('GET /health', { auth: 'none', handle: () => json(200, {}) }),
  route('GET /header', { auth: 'none', handle: ({ headers }) => json(200, { length: headers['x-long']?.length }) }),
  route('GET /filter', { auth: 'none', handle: ({ query }) => json(200, { length: query['filter']?.length }) }),
])

async function expectEnvelope(code: number, message: string, ...parts: (string | Buffer)[]): Promise<void> {
  const { status, headers, body } = parseRaw(await sendRaw(api.port, ...parts))
  assert.equal(status, code)
  const { error, ...said } = JSON.parse(body)
  assert.deepEqual(said, { code, message })
  assert.equal(new Map<string, number>(Object.entries(generalErrors)).get(error), code)
  assert.equal(headers.get('content-type'), 'application/json')
  assert.equal(headers.get('connection'), 'close')
  assert.equal(headers.get('x-content-type-options'), 'nosniff')
  assert.match(headers.get('x-request-id') ?? '', /^[0-9a-f]{18}-[0-9a-z]+$/)
  assert.equal((await fetch(`${api.url}/health`)).status, 200)
}

test('bytes that are no HTTP get an answer in the usual form', async () => {
  await expectEnvelope(400, 'malformed request', 'rubbish\r\n\r\n')
  await expectEnvelope(400, 'malformed request', Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01]))
  await expectEnvelope(400, 'malformed request', 'GET /health HTTP/1.1\r\nHost: x\r\nbad header: 1\r\n\r\n')
  await expectEnvelope(400, 'malformed request', 'GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n')
})

test('ambiguous framing, the root of request smuggling, is refused (RFC 9112 §6.3)', async () => {
  for (const framing of [
    'Content-Length: 4\r\nTransfer-Encoding: chunked',
    'Content-Length: 4\r\nContent-Length: 5',
    'Transfer-Encoding: chunked, identity',
  ]) {
    await expectEnvelope(400, 'malformed request', `POST /health HTTP/1.1\r\nHost: x\r\n${framing}\r\n\r\n0\r\n\r\n`)
  }
})

test('64 KB of request line and headers pass, more is 431', async () => {
  const withHeader = (length: number) =>
    `GET /header HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: ${'a'.repeat(length)}\r\n\r\n`
  assert.match(await sendRaw(api.port, withHeader(60 * 1024)), /"length":61440/)
  await expectEnvelope(431, 'request header fields too large', withHeader(70 * 1024))
  await expectEnvelope(431, 'request header fields too large', withHeader(5 * 1024 * 1024))
  const filter = '%61'.repeat(20_000)
  const long = await sendRaw(api.port, `GET /filter?filter=${filter} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
  assert.match(long, /"length":20000/)
})

test('a request without Host is 400 (RFC 9112 §3.2)', async () => {
  const text = await sendRaw(api.port, 'GET /health HTTP/1.1\r\nConnection: close\r\n\r\n')
  assert.deepEqual(JSON.parse(parseRaw(text).body), { code: 400, error: 'bad_request', message: 'missing host header' })
})

test('two Host headers are 400 (RFC 9112 §3.2)', async () => {
  const text = await sendRaw(api.port, 'GET /health HTTP/1.1\r\nHost: a\r\nhOST: b\r\nConnection: close\r\n\r\n')
  assert.deepEqual(JSON.parse(parseRaw(text).body), {
    code: 400,
    error: 'bad_request',
    message: 'duplicate host header',
  })
})

test('tunnels and foreign methods are refused in the usual form', async () => {
  await expectEnvelope(405, 'method not allowed', 'CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n')
  for (const method of ['TRACE', 'PROPFIND', 'PURGE']) {
    const text = await sendRaw(api.port, `${method} /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
    assert.equal(parseRaw(text).status, 405, method)
  }
})

test('an upgrade that is not offered is answered as a plain request', async () => {
  const text = await sendRaw(
    api.port,
    'GET /health HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n',
  )
  assert.equal(parseRaw(text).status, 200)
})

test('pipelined requests are answered in their order', async () => {
  const line = (path: string, last = false) =>
    `GET ${path} HTTP/1.1\r\nHost: x\r\n${last ? 'Connection: close\r\n' : ''}\r\n`
  const text = await sendRaw(api.port, line('/health') + line('/nowhere') + line('/health', true))
  assert.deepEqual(
    [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, code]) => code),
    ['200', '404', '200'],
  )
})

test('500 connections that never finish their headers do not keep others from being served', async () => {
  const slow = Array.from({ length: 500 }, () => {
    const socket = connect(api.port, '127.0.0.1')
    socket.on('error', () => undefined)
    socket.write('GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: ')
    return socket
  })
  await Promise.all(slow.map((socket) => once(socket, 'connect')))
  for (let i = 0; i < 20; i++) assert.equal((await fetch(`${api.url}/health`)).status, 200)
  for (const socket of slow) socket.destroy()
})

test('connections cut at any byte never disturb the server', async () => {
  const whole = 'POST /health HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"a":1}'
  await Promise.all(
    Array.from({ length: whole.length }, async (_, i) => {
      const socket = connect(api.port, '127.0.0.1')
      socket.on('error', () => undefined)
      await once(socket, 'connect')
      socket.write(whole.slice(0, i))
      await new Promise(setImmediate)
      socket.resetAndDestroy()
    }),
  )
  assert.equal((await fetch(`${api.url}/health`)).status, 200)
})

test('who takes too long for headers or body is told so and let go', async () => {
  const hasty = await serve([route('POST /x', { auth: 'none', handle: async () => json(200, {}) })], {
    timeouts: { headersMs: 300, requestMs: 600 },
  })
  const slow = await Promise.all([
    sendRaw(hasty.port, 'POST /x HTTP/1.1\r\nHost: x\r\nX-Slow: '),
    sendRaw(hasty.port, 'POST /x HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{'),
  ])
  for (const text of slow) {
    assert.deepEqual(JSON.parse(parseRaw(text).body), {
      code: 408,
      error: 'request_timeout',
      message: 'request timeout',
    })
  }
})

test('senders of slow bodies do not take the place of others', async () => {
  const small = await serve([route('POST /x', { auth: 'none', handle: async () => json(200, {}) })], {
    maxConcurrent: 3,
  })
  const head = 'POST /x HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{'
  const slow = Array.from({ length: 10 }, () => connect(small.port, '127.0.0.1').on('error', () => undefined))
  for (const socket of slow) {
    await once(socket, 'connect')
    socket.write(head)
  }
  const answer = await fetch(`${small.url}/x`, { method: 'POST' })
  assert.equal(answer.status, 200)
  for (const socket of slow) socket.destroy()
})
