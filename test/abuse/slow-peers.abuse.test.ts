import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { json, jsonText, route } from '../../src/http/route.ts'
import { eventually } from '../kit/eventually.ts'
import { serve } from '../kit/http.ts'

const MB = 1024 * 1024
const sockets: Socket[] = []
after(() => {
  for (const socket of sockets) socket.destroy()
})

/** A connection that writes what it is given, and reads only when told to. */
function open(port: number, text: string | Buffer, { reads = true } = {}): { socket: Socket; heard(): string } {
  const socket = connect(port, '127.0.0.1')
  let heard = ''
  sockets.push(socket)
  socket.on('error', () => undefined)
  if (reads) socket.setEncoding('latin1').on('data', (chunk) => (heard += chunk))
  else socket.pause()
  socket.write(text)
  return { socket, heard: () => heard }
}

const body = '{"x":1}'
const posted = (length: number, content: string) =>
  `POST /json HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${content}`

const routes = [
  route('POST /json', {
    auth: 'none',
    summary: '',
    answers: {},
    handle: async ({ bodyText }) => json(200, bodyText.length),
  }),
  route('GET /large', {
    auth: 'none',
    summary: '',
    answers: {},
    handle: async () => jsonText(200, `"${'x'.repeat(30 * MB)}"`),
  }),
  route('GET /huge', {
    auth: 'none',
    summary: '',
    answers: {},
    handle: async () => jsonText(200, `"${'x'.repeat(65 * MB)}"`),
  }),
  route('GET /small', { auth: 'none', summary: '', answers: {}, handle: async () => json(200, 'ok') }),
]
const post = (url: string, text = body) =>
  fetch(`${url}/json`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: text })

test('hundreds of senders that never end their bodies hold up nobody', async () => {
  const api = await serve(routes, { bodyLimit: MB })
  const part = posted(MB, `"${'x'.repeat(900_000)}`)
  const slow = Array.from({ length: 300 }, () => open(api.port, part))
  // As many as the address may hold stay; the oldest of the others have been told to come back.
  await eventually(() => assert.ok(slow.filter(({ heard }) => heard().startsWith('HTTP/1.1 503')).length >= 225))
  assert.match(slow[0]?.heard() ?? '', /retry-after: 1\r\n/i)
  for (let i = 0; i < 20; i++) {
    const answer = await post(api.url, `"${'y'.repeat(500_000)}"`)
    assert.deepEqual([answer.status, await answer.json()], [200, 500_002])
  }
})

test('a body has to come at some rate', async () => {
  const api = await serve(routes, {
    bodyLimit: MB,
    budgets: { incomingPace: { graceMs: 3_000, bytesPerSecond: 100_000 } },
  })
  const dripping = open(api.port, posted(MB, '"'))
  const drip = setInterval(() => dripping.socket.write('x'), 20)
  after(() => clearInterval(drip))
  await eventually(() => assert.match(dripping.heard(), /^HTTP\/1.1 408 .*"request timeout"/s))
  assert.equal((await post(api.url)).status, 200)
})

test('readers that pause before large answers end alone, and others are answered', async () => {
  // None of them for being slow.
  const readingPace = { graceMs: 600_000, bytesPerSecond: 65_536, streamBytesPerSecond: 1 }
  const api = await serve(routes, { budgets: { readingPace } })
  const paused = Array.from({ length: 13 }, () =>
    open(api.port, 'GET /large HTTP/1.1\r\nHost: x\r\n\r\n', { reads: false }),
  )
  const isOver = ({ socket }: { socket: Socket }) => socket.destroyed
  // 128 MB are four of these answers: the oldest of the thirteen lose their connection.
  for (const reader of paused) reader.socket.on('end', () => reader.socket.destroy())
  await eventually(() => assert.equal(api.requests.filter(({ route }) => route === '/large').length, 13))
  for (const reader of paused.slice(0, 9)) reader.socket.resume()
  await eventually(() => assert.ok(paused.slice(0, 9).every(isOver)))
  assert.ok(!paused.slice(9).some(isOver))
  assert.equal(await (await fetch(`${api.url}/small`)).json(), 'ok')
  const large = await fetch(`${api.url}/large`)
  assert.equal((await large.text()).length, 30 * MB + 2)
  assert.ok(process.memoryUsage().rss < 1500 * MB)
})

test('an answer beyond every measure is refused, and one that is not taken in time ends', async () => {
  const api = await serve(routes, {
    budgets: { readingPace: { graceMs: 300, bytesPerSecond: 1000 * MB, streamBytesPerSecond: MB } },
  })
  const huge = await fetch(`${api.url}/huge`)
  assert.deepEqual(
    [huge.status, await huge.json()],
    [413, { code: 413, error: 'response_too_large', message: 'response too large' }],
  )
  const { socket } = open(api.port, 'GET /large HTTP/1.1\r\nHost: x\r\n\r\n', { reads: false })
  // Any progress is not enough: this reader takes a little all the time.
  let taken = 0
  const sip = setInterval(() => {
    taken += socket.read()?.length ?? 0
  }, 10)
  after(() => clearInterval(sip))
  await eventually(() => assert.ok(socket.closed))
  assert.ok(taken < 30 * MB)
})

test('requests sent ahead on one connection are worked on one by one, and answered in order', async () => {
  let [atOnce, most, count] = [0, 0, 0]
  const api = await serve([
    route('GET /counted', {
      auth: 'none',
      summary: '',
      answers: {},
      handle: async () => {
        most = Math.max(most, ++atOnce)
        await new Promise((resolve) => setImmediate(resolve))
        atOnce--
        return json(200, ++count)
      },
    }),
    ...routes,
  ])
  const ahead = 'GET /counted HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(20)
  const { heard } = open(api.port, `${ahead}GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
  await eventually(() => assert.match(heard(), /"ok"$/))
  assert.deepEqual(
    [...heard().matchAll(/\r\n\r\n(\d+)/g)].map(([, n]) => Number(n)),
    Array.from({ length: 20 }, (_, i) => i + 1),
  )
  assert.equal(most, 1)
})

test('every logged request names a route, and no value of a parameter', async () => {
  const api = await serve(routes)
  await fetch(`${api.url}/small?jwt=s3cret&a=b&s3cret`)
  await fetch(`${api.url}/small`, {
    method: 'OPTIONS',
    headers: { 'access-control-request-method': 'GET', origin: 'x' },
  })
  await fetch(`${api.url}/nowhere/s`, { method: 'OPTIONS', headers: { 'access-control-request-method': 'GET' } })
  await fetch(`${api.url}/nowhere`)
  await fetch(`${api.url}/small`, { method: 'DELETE' })
  await eventually(() => assert.equal(api.requests.length, 5))
  assert.deepEqual(
    api.requests.map(({ route: named }) => named),
    ['/small', '/small', 'unmatched', 'unmatched', '/small'],
  )
  assert.equal(api.requests[0]?.path(), '/small?jwt=***&a=***&***')
})
