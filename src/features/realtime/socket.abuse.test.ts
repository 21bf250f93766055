import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { before, test } from 'node:test'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { type Talker, talkTo } from '../../../test/kit/web-socket.ts'

let api: InProcessServer
/** Nobody's business but their own: hears of everything while others misbehave. */
let witness: Talker
before(async () => {
  api = await startServer({
    config: { 'auth.enabled': false, 'realtime.heartbeat_interval': 1, 'realtime.buffer_size': 65_536 },
  })
  await api.sql(`create table posts (id int primary key, body text); create table marks (id int primary key);
    ${Array.from({ length: 120 }, (_, i) => `create table t${i} (id int primary key);`).join('')}
    grant all on all tables in schema public to svc_anon`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/t119')).status, 200))
  witness = await talkTo(api.url)
  await witness.ask({ type: 'subscribe', tables: ['marks'] })
})

let lastRow = 0
const write = async (table: string, more: object = {}): Promise<number> => {
  const id = ++lastRow
  const { status, text } = await api.call(`POST /api/collections/${table}`, { json: { id, ...more } })
  assert.equal(status, 201, text)
  return id
}
/** The others are served as ever. */
const nobodyNoticed = async (): Promise<void> => {
  const id = await write('marks')
  await witness.until(({ record }) => record?.id === id)
  assert.equal((await witness.ask({ type: 'ping' })).status, 'ok')
}
const openNow = async (): Promise<number> =>
  (await api.call('GET /api/admin/stats', { as: 'admin' })).body.realtime_connections

/** A client that sends bytes as it likes. */
async function rawClient(): Promise<{ socket: Socket; heard: () => Buffer; closed: () => boolean }> {
  const socket = connect(Number(new URL(api.url).port), '127.0.0.1')
  let heard = Buffer.alloc(0)
  let isClosed = false
  socket.on('data', (chunk) => {
    heard = Buffer.concat([heard, chunk])
  })
  socket.on('close', () => {
    isClosed = true
  })
  socket.on('error', () => {})
  socket.write(
    'GET /api/realtime/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  )
  await eventually(() => assert.match(heard.toString('latin1'), /"connected"/))
  heard = Buffer.alloc(0)
  return { socket, heard: () => heard, closed: () => isClosed }
}
/** The code of the closing frame; short frames, such as a ping of the heartbeat, may come before it. */
function closeCode(bytes: Buffer): number | undefined {
  for (let at = 0; at + 4 <= bytes.length; at += 2 + (bytes[at + 1] ?? 0)) {
    if (bytes[at] === 0x88) return bytes.readUInt16BE(at + 2)
  }
  return undefined
}
const MASK = Buffer.alloc(4)

test('a thousand subscriptions are at most a hundred tables', async () => {
  const talk = await talkTo(api.url)
  for (let i = 0; i < 1_000; i++) talk.say({ type: 'subscribe', tables: [`t${i % 120}`], ref: i })
  await talk.until(({ ref }) => ref === 999)
  const replies = talk.heard.filter(({ type }) => type === 'reply')
  assert.equal(replies.length, 1_000)
  for (const { ref, status, message } of replies) {
    const isTaken = ref % 120 < 100
    assert.deepEqual([status, message], isTaken ? ['ok', undefined] : ['error', 'too many tables: max 100'])
  }
  const id = await write('t7')
  await talk.until(({ type }) => type === 'event')
  assert.deepEqual(
    talk.events().map(({ record }) => record.id),
    [id],
  )
  await nobodyNoticed()
  talk.close()
})

test('a peer that vanished without a word is found out and its place given back', async () => {
  const before = await openNow()
  const dead = await Promise.all(Array.from({ length: 20 }, () => talkTo(api.url, { options: { autoPong: false } })))
  const alive = await talkTo(api.url)
  assert.equal(await openNow(), before + 21)
  await Promise.all(dead.map((talk) => talk.closed()))
  assert.equal(await openNow(), before + 1)
  assert.equal((await alive.ask({ type: 'ping' })).status, 'ok')
  alive.close()
  await nobodyNoticed()
})

test('64 KB pass, one byte more is 1009, in one frame or in many', async () => {
  const ping = (length: number) => `{"type":"ping","ref":7${' '.repeat(length - 23)}}`
  const fits = await talkTo(api.url)
  assert.equal(ping(65_536).length, 65_536)
  fits.say(ping(65_536))
  await fits.until(({ ref }) => ref === 7)
  fits.say(ping(65_537))
  assert.equal(await fits.closed(), 1009)
  const parts = await talkTo(api.url)
  for (let i = 0; i < 66; i++) parts.ws.send('x'.repeat(1_000), { fin: false })
  assert.equal(await parts.closed(), 1009)
  const { socket, heard, closed } = await rawClient()
  // Announces 2^62 bytes.
  socket.write(Buffer.concat([Buffer.from([0x81, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0]), MASK]))
  await eventually(() => assert.equal(closeCode(heard()), 1009))
  await eventually(() => assert.ok(closed()))
  await nobodyNoticed()
})

test('what breaks the protocol is closed with the code for it', async () => {
  const binary = await talkTo(api.url)
  binary.ws.send(Buffer.from('{"type":"ping"}'))
  assert.equal(await binary.closed(), 1003)
  const cases: [string, number[], number][] = [
    ['an unmasked frame', [0x81, 0x01, 0x78], 1002],
    ['a reserved bit', [0xc1, 0x80, 0, 0, 0, 0], 1002],
    ['an unknown opcode', [0x83, 0x80, 0, 0, 0, 0], 1002],
    ['a long control frame', [0x89, 0xfe, 0x01, 0x00, 0, 0, 0, 0], 1002],
    ['a continuation of nothing', [0x80, 0x80, 0, 0, 0, 0], 1002],
    ['text that is no UTF-8', [0x81, 0x82, 0, 0, 0, 0, 0xc3, 0x28], 1007],
  ]
  for (const [what, bytes, code] of cases) {
    const { socket, heard, closed } = await rawClient()
    socket.write(Buffer.from(bytes))
    await eventually(() => assert.equal(closeCode(heard()), code, what))
    await eventually(() => assert.ok(closed(), what))
  }
  await nobodyNoticed()
})

test('ten thousand pings are answered; a flood that reads no answers is cut off', async () => {
  const talk = await talkTo(api.url)
  let pongs = 0
  talk.ws.on('pong', () => pongs++)
  for (let i = 0; i < 10_000; i++) talk.ws.ping('x')
  for (let i = 0; i < 10_000; i++) talk.say({ type: 'ping', ref: i })
  await eventually(() => assert.equal(pongs, 10_000))
  await eventually(() => assert.equal(talk.heard.filter(({ type }) => type === 'reply').length, 10_000))
  talk.close()

  const deaf = await rawClient()
  deaf.socket.pause()
  const ping = Buffer.concat([Buffer.from([0x89, 0xfd]), MASK, Buffer.alloc(125)])
  const flood = Buffer.concat(Array.from({ length: 5_000 }, () => ping))
  await eventually(() => {
    if (!deaf.socket.destroyed && deaf.socket.writableLength < 10_000_000) deaf.socket.write(flood)
    assert.ok(deaf.socket.destroyed)
  })
  await nobodyNoticed()
})

test('a reader that stops is let go with 1013, and resumes by last_id without loss', async () => {
  // Its silence alone does not end it within the minute.
  const patient = await startServer({ on: api, config: { 'auth.enabled': false, 'realtime.buffer_size': 65_536 } })
  await api.sql(`select svc.watch('public.posts')`)
  const stopped = async () => {
    const [talk, reads] = [await talkTo(patient.url), await talkTo(patient.url)]
    for (const talker of [talk, reads]) await talker.ask({ type: 'subscribe', tables: ['posts'] })
    const first = await write('posts')
    await talk.until(({ record }) => record?.id === first)
    talk.ws.pause()
    // More than the socket buffers of both ends hold, in one commit.
    lastRow += 15
    await api.sql(`insert into posts select i, repeat('x', 900000) from generate_series($1::int, $2::int) i`, [
      first + 1,
      lastRow,
    ])
    // Another one has heard it, or could not keep up either.
    await eventually(() => assert.ok(reads.events().at(-1)?.record.id === lastRow || reads.ws.readyState > 1))
    talk.ws.resume()
    reads.close()
    return { talk, code: await talk.closed(), written: Array.from({ length: 16 }, (_, i) => first + i) }
  }
  let { talk, code, written } = await stopped()
  // Only who reads on within five seconds hears why, and a busy machine may take longer to come here.
  for (let tries = 0; code === 1006 && tries < 5; tries++) ({ talk, code, written } = await stopped())
  assert.equal(code, 1013)
  const seen = talk.events().map(({ record }) => record.id)
  assert.ok(seen.length < written.length)
  let lastId = talk.lastId()
  for (let tries = 0; seen.length < written.length && tries < 20; tries++) {
    const again = await talkTo(patient.url)
    await again.ask({ type: 'subscribe', tables: ['posts'], last_id: lastId })
    await eventually(() => assert.ok(again.events().length + seen.length === written.length || again.ws.readyState > 1))
    seen.push(...again.events().map(({ record }) => record.id))
    lastId = again.lastId() || lastId
    again.close()
  }
  assert.deepEqual(seen, written)
  await nobodyNoticed()
  await patient.stop()
})
