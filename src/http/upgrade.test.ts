import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { eventually } from '../../test/kit/eventually.ts'
import { sendRaw, serve } from '../../test/kit/http.ts'
import { json, route } from './route.ts'

const echo = route('GET /api/echo', {
  summary: 'Sends back what comes',
  auth: 'optional',
  tokenInQuery: true,
  upgrade: true,
  limit: 'echo',
  answers: { 101: null },
  handle(call) {
    const { socket, head, headers } = call.takeConnection()
    const lines = headers.map((text, i) => (i % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join('')
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n${lines}\r\n`)
    socket.write(head)
    socket.pipe(socket)
    return { status: 101, streaming: true }
  },
})
const plain = route('POST /api/plain', {
  summary: 'Takes a body',
  auth: 'none',
  answers: { 200: null },
  handle: ({ body }) => json(200, body),
})

const handshake = (more = '', line = 'GET /api/echo HTTP/1.1') =>
  `${line}\r\nHost: here.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${more}\r\n`
const serveBoth = (config: Parameters<typeof serve>[1] = {}) =>
  serve([echo, plain], { rateLimits: { echo: { max: 2, seconds: 60 } }, ...config })
const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1])

test('a route takes the connection, its first bytes included; the log tells of it when it ends', async () => {
  const { port, requests } = await serveBoth()
  const socket = connect(port, '127.0.0.1')
  let heard = ''
  socket.on('data', (chunk) => (heard += chunk))
  socket.write(`${handshake('X-Request-Id: mine\r\n', 'GET /api/echo?token=ana HTTP/1.1')}first`)
  await eventually(() => assert.match(heard, /^HTTP\/1\.1 101 [\s\S]*X-Request-Id: mine[\s\S]*first$/))
  socket.write(' second')
  await eventually(() => assert.match(heard, /first second$/))
  assert.equal(requests.length, 0)
  socket.destroy()
  await eventually(() => assert.equal(requests.length, 1))
  assert.deepEqual(
    [requests[0]?.status, requests[0]?.route, requests[0]?.path()],
    [101, '/api/echo', '/api/echo?token=***'],
  )
})

test('what is no handshake is refused in the usual form, and the connection ends', async () => {
  const { port } = await serveBoth({ corsOrigins: ['https://app.test'] })
  const cases: [string, number, RegExp][] = [
    [handshake().replace('Version: 13', 'Version: 12'), 426, /Sec-WebSocket-Version: 13/],
    [handshake().replace('dGhlIHNhbXBsZSBub25jZQ==', 'short'), 400, /invalid websocket key/],
    [handshake('Origin: https://evil.test\r\n'), 403, /origin not allowed/],
    [handshake('Authorization: Bearer nobody\r\n'), 401, /invalid or expired token/],
    [handshake().replace('Host: here.test\r\n', ''), 400, /missing host header/],
  ]
  for (const [bytes, status, said] of cases) {
    const answer = await sendRaw(port, bytes)
    assert.equal(statusOf(answer), status)
    assert.match(answer, said)
    assert.match(answer, /Connection: close/)
    assert.match(answer, /X-Request-Id: /)
  }
})

test('the rate limit counts handshakes', async () => {
  const { port } = await serveBoth({ rateLimits: { echo: { max: 1, seconds: 60 } } })
  const first = connect(port, '127.0.0.1')
  first.write(handshake())
  await once(first, 'data')
  assert.match(await sendRaw(port, handshake()), /^HTTP\/1\.1 429 /)
  first.destroy()
})

test('any other upgrade is ignored: the request is answered as if it had not asked, and so is the next', async () => {
  const { port } = await serveBoth()
  const socket = connect(port, '127.0.0.1')
  let heard = ''
  socket.on('data', (chunk) => (heard += chunk))
  const answerTo = async (bytes: string): Promise<number> => {
    heard = ''
    socket.write(bytes)
    await eventually(() => assert.match(heard, /\}$/))
    return statusOf(heard)
  }
  const h2c = 'Host: here.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n'
  const body = '{"a":1}'
  const post = `POST /api/plain HTTP/1.1\r\n${h2c}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  assert.equal(await answerTo(post), 200)
  assert.equal(await answerTo(post), 200)
  assert.equal(await answerTo(`GET /api/echo HTTP/1.1\r\n${h2c}\r\n`), 426)
  assert.equal(await answerTo(handshake('', 'GET /api/missing HTTP/1.1')), 404)
  assert.equal(await answerTo(handshake('', 'POST /api/echo HTTP/1.1')), 405)
  socket.destroy()
})

test('a handshake behind an unanswered request ends the connection', async () => {
  const slow = route('GET /api/slow', {
    summary: 'Takes its time',
    auth: 'none',
    answers: { 200: null },
    handle: () => new Promise((resolve) => setTimeout(() => resolve(json(200, {})), 200)),
  })
  const { port } = await serve([echo, slow], { rateLimits: { echo: null } })
  const answer = await sendRaw(port, `GET /api/slow HTTP/1.1\r\nHost: here.test\r\n\r\n${handshake()}`)
  assert.doesNotMatch(answer, /101/)
})

test('a stop does not wait for connections that were taken and never end', async () => {
  const { port, server } = await serveBoth({ shutdownTimeoutSeconds: 1 })
  const socket = connect(port, '127.0.0.1')
  socket.write(handshake())
  await once(socket, 'data')
  const closed = once(socket, 'close')
  await server.stop()
  await closed
})
