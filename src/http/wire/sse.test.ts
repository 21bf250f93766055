import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { eventually } from '../../../test/eventually.ts'
import { route, serve } from '../../../test/http.ts'
import { type EventStream, openEventStream } from './sse.ts'

const streams: EventStream[] = []
const api = await serve([
  route('GET /events', {
    auth: 'none',
    handle: async ({ raw }) => {
      streams.push(openEventStream(raw.response, { 'X-Own': 'yes' }))
      return { status: 200, streaming: true }
    },
  }),
])
const latest = (): EventStream => streams.at(-1) ?? assert.fail('no stream')

test('events arrive in order, with the headers of every answer', async () => {
  const answer = await fetch(`${api.url}/events`)
  assert.equal(answer.headers.get('content-type'), 'text/event-stream')
  assert.equal(answer.headers.get('x-own'), 'yes')
  assert.equal(answer.headers.get('x-content-type-options'), 'nosniff')
  assert.match(answer.headers.get('x-request-id') ?? '', /^[0-9a-f]{18}-[0-9a-z]+$/)
  for (let i = 0; i < 100; i++) latest().write(i % 2 ? `data: ${i}\n\n` : Buffer.from(`data: ${i}\n\n`))
  latest().close()
  const expected = Array.from({ length: 100 }, (_, i) => `data: ${i}\n\n`).join('')
  assert.equal(await answer.text(), expected)
})

test('a stream that ended takes nothing more and says so once', async () => {
  const answer = await fetch(`${api.url}/events`)
  const stream = latest()
  let ended = 0
  stream.onClose(() => ended++)
  await answer.body?.cancel()
  await eventually(() => assert.equal(stream.closed, true))
  stream.write('data: late\n\n')
  stream.close()
  assert.equal(ended, 1)
  stream.onClose(() => ended++)
  assert.equal(ended, 2)
})

test('a reader that does not read shows in bufferedBytes and can be cut off', async () => {
  const socket = connect(api.port, '127.0.0.1')
  const before = streams.length
  socket.write('GET /events HTTP/1.1\r\nHost: x\r\n\r\n')
  await eventually(() => assert.equal(streams.length, before + 1))
  socket.pause()
  const stream = latest()
  const frame = Buffer.alloc(64 * 1024, 'x')
  for (let i = 0; i < 1000 && stream.bufferedBytes < 8 * 1024 * 1024; i++) {
    stream.write(frame)
    await new Promise(setImmediate)
  }
  assert.ok(stream.bufferedBytes >= 8 * 1024 * 1024)
  const closed = new Promise<void>((resolve) => stream.onClose(resolve))
  stream.close('now')
  await closed
  assert.equal(stream.closed, true)
  socket.on('error', () => undefined).resume()
  if (!socket.destroyed) await once(socket, 'close')
})

test('the access log gets one line per stream, when it has ended', async () => {
  const answer = await fetch(`${api.url}/events`, { headers: { 'x-request-id': 'streamed' } })
  assert.ok(!api.requests.some(({ requestId }) => requestId === 'streamed'))
  latest().close()
  await answer.text()
  await eventually(() => assert.equal(api.requests.filter(({ requestId }) => requestId === 'streamed').length, 1))
})
