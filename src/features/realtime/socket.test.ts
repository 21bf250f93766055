import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { talkTo } from '../../../test/kit/web-socket.ts'

let api: InProcessServer
before(async () => {
  api = await startServer({ config: { 'auth.enabled': false, 'realtime.heartbeat_interval': 1 } })
  await api.sql(`create table posts (id int primary key, title text, big numeric);
    create table notes (id int primary key, body text);
    create table other (id int primary key);
    grant all on posts, notes, other to svc_anon`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/other')).status, 200))
})

let lastRow = 0
const write = async (table: string, more: object = {}): Promise<number> => {
  const id = ++lastRow
  const { status } = await api.call(`POST /api/collections/${table}`, { json: { id, ...more } })
  assert.equal(status, 201)
  return id
}
const ids = (events: { table: string; record: { id: number } }[]) =>
  events.map(({ table, record }) => [table, record.id])

test('a WebSocket begins with its client id, and tells what it subscribed to', async () => {
  const talk = await talkTo(api.url)
  assert.match(String(talk.headers['x-request-id']), /./)
  const connected = await talk.until(({ type }) => type === 'connected')
  assert.match(connected.client_id, /^[0-9a-f-]{36}$/)
  const reply = await talk.ask({ type: 'subscribe', tables: ['posts'] })
  assert.equal(reply.status, 'ok')
  assert.match(reply.position, /^\d+-\d+$/)
  await write('notes', { body: 'elsewhere' })
  const id = await write('posts', { title: 'hi\nthere', big: 1 })
  await api.call(`PATCH /api/collections/posts/${id}`, { json: { title: 'ho' } })
  await api.call(`DELETE /api/collections/posts/${id}`)
  await talk.until(({ action }) => action === 'delete')
  const events = talk.events()
  assert.deepEqual(
    events.map(({ id: _, ...event }) => event),
    [
      { type: 'event', action: 'create', table: 'posts', record: { id, title: 'hi\nthere', big: 1 } },
      { type: 'event', action: 'update', table: 'posts', record: { id, title: 'ho', big: 1 } },
      { type: 'event', action: 'delete', table: 'posts', record: { id } },
    ],
  )
  for (const event of events) assert.match(event.id, /^\d+-\d+$/)
  talk.close()
})

test('a long record arrives letter for letter, on a stream and on a WebSocket', async () => {
  const [talk, stream] = [await talkTo(api.url), await listenTo(api.url, { query: { tables: 'notes' } })]
  await talk.ask({ type: 'subscribe', tables: 'notes' })
  const body = 'Grün, 绿 or 🟢?\n'.repeat(20_000)
  const record = { id: await write('notes', { body }), body }
  assert.deepEqual((await talk.until(({ type }) => type === 'event')).record, record)
  assert.deepEqual((await stream.until(({ event }) => event === 'message')).data.record, record)
  talk.close()
  stream.close()
})

test('a change has the same id on a stream and on a WebSocket, and each resumes where the other stopped', async () => {
  const [talk, stream] = [await talkTo(api.url), await listenTo(api.url, { query: { tables: 'posts' } })]
  await talk.ask({ type: 'subscribe', tables: 'posts' })
  await write('posts')
  await talk.until(({ type }) => type === 'event')
  await stream.until(({ event }) => event === 'message')
  assert.equal(talk.lastId(), stream.lastId())
  talk.close()
  stream.close()
  const [one, two] = [await write('posts'), await write('posts')]
  const again = await talkTo(api.url)
  const reply = await again.ask({ type: 'subscribe', tables: ['posts'], last_id: stream.lastId() })
  assert.equal(reply.position, stream.lastId())
  await again.until(({ record }) => record?.id === two)
  assert.deepEqual(ids(again.events()), [
    ['posts', one],
    ['posts', two],
  ])
  again.close()
})

test('subscriptions add up, a table once; what is unsubscribed from is heard no more', async () => {
  const talk = await talkTo(api.url)
  await talk.ask({ type: 'subscribe', tables: ['posts', 'public.posts'] })
  await talk.ask({ type: 'subscribe', tables: 'posts, notes' })
  const first = [await write('posts'), await write('notes'), await write('other')]
  await talk.until(({ table }) => table === 'notes')
  assert.equal((await talk.ask({ type: 'unsubscribe', tables: ['posts'] })).status, 'ok')
  await write('posts')
  const last = await write('notes')
  await talk.until(({ record }) => record?.id === last)
  assert.deepEqual(ids(talk.events()), [
    ['posts', first[0]],
    ['notes', first[1]],
    ['notes', last],
  ])
  talk.close()
})

test('without tables it hears of all, and can leave some out', async () => {
  const talk = await talkTo(api.url)
  await talk.ask({ type: 'subscribe' })
  await talk.ask({ type: 'unsubscribe', tables: ['notes', 'missing'] })
  const post = await write('posts')
  await write('notes')
  const other = await write('other')
  await talk.until(({ table }) => table === 'other')
  assert.deepEqual(ids(talk.events()), [
    ['posts', post],
    ['other', other],
  ])
  talk.close()
})

test('each table has its own filter, and the newest counts', async () => {
  const talk = await talkTo(api.url)
  await talk.ask({ type: 'subscribe', tables: ['posts'], filter: "title='in'" })
  await talk.ask({ type: 'subscribe', tables: ['notes'], filter: "body='yes'" })
  await talk.ask({ type: 'subscribe', tables: ['other'] })
  await write('posts', { title: 'out' })
  await write('notes', { body: 'no' })
  const told = [
    await write('posts', { title: 'in' }),
    await write('notes', { body: 'yes' }),
    await write('other'),
    await write('posts', { title: 'in' }),
  ]
  await talk.until(({ record }) => record?.id === told.at(-1))
  assert.deepEqual(
    talk.events().map(({ record }) => record.id),
    told,
  )
  await talk.ask({ type: 'subscribe', tables: ['posts'] })
  const free = await write('posts', { title: 'out' })
  await talk.until(({ record }) => record?.id === free)
  talk.close()
})

test('a table that is added with an older last_id is brought to where the others are; nothing comes twice', async () => {
  const first = await talkTo(api.url)
  await first.ask({ type: 'subscribe' })
  const marks: number[] = []
  for (let i = 0; i < 5; i++) marks.push(await write('notes'), await write('posts'))
  await first.until(({ record }) => record?.id === marks.at(-1))
  const start = first.events()[0]?.id
  first.close()
  const talk = await talkTo(api.url)
  await talk.ask({ type: 'subscribe', tables: ['posts'], last_id: start })
  await talk.ask({ type: 'subscribe', tables: ['notes'], last_id: start })
  const last = await write('posts')
  await talk.until(({ record }) => record?.id === last)
  assert.deepEqual(
    talk
      .events()
      .map(({ record }) => record.id)
      .sort((a, b) => a - b),
    [...marks.slice(1), last],
  )
  talk.close()
})

test('changing subscriptions under load loses nothing and repeats nothing', async () => {
  const talk = await talkTo(api.url)
  await talk.ask({ type: 'subscribe', tables: ['posts'] })
  let writing = true
  const written: number[] = []
  const writers = Array.from({ length: 4 }, async () => {
    while (writing) written.push(await write('posts'))
  })
  for (let i = 0; i < 30; i++) {
    await talk.ask({ type: 'subscribe', tables: ['notes'], ...(i % 3 === 0 && { filter: "body='x'" }) })
    await talk.ask({ type: 'unsubscribe', tables: ['notes'] })
  }
  writing = false
  await Promise.all(writers)
  await eventually(() => assert.equal(talk.events().length, written.length))
  const told = talk.events().map(({ record }) => record.id)
  assert.deepEqual(
    told.sort((a, b) => a - b),
    written.sort((a, b) => a - b),
  )
  talk.close()
})

test('an unknown last_id is a reset, and the subscription goes on from there', async () => {
  for (const lastId of ['1-1', 'nonsense', '99999999-1']) {
    const talk = await talkTo(api.url)
    const reply = await talk.ask({ type: 'subscribe', tables: ['posts'], last_id: lastId })
    const reset = await talk.until(({ type }) => type === 'reset')
    assert.deepEqual(reset, { type: 'reset', position: reply.position })
    const id = await write('posts')
    await talk.until(({ record }) => record?.id === id)
    talk.close()
  }
})

test('what cannot be subscribed to is told in the reply, and the connection goes on', async () => {
  const talk = await talkTo(api.url)
  const many = Array.from({ length: 101 }, (_, i) => `t${i}`)
  const refusals: [object, string][] = [
    [{ tables: ['missing'] }, 'unknown table: missing'],
    [{ tables: ['svc.changes'] }, 'unknown table: svc.changes'],
    [{ tables: ['posts', 'notes'], filter: 'id=1' }, 'filter requires exactly one table'],
    [{ filter: 'id=1' }, 'filter requires exactly one table'],
    [{ tables: ['posts'], filter: 'nope=1' }, 'invalid filter: unknown column: nope'],
    [{ tables: many }, 'too many tables: max 100'],
    [{ tables: 1 }, 'tables has a wrong type'],
    [{ tables: [1] }, 'tables has a wrong type'],
    [{ tables: ['posts'], last_id: 1 }, 'last_id must be a string'],
  ]
  for (const [message, why] of refusals) {
    const { status, message: said } = await talk.ask({ type: 'subscribe', ...message })
    assert.deepEqual([status, said], ['error', why])
  }
  assert.equal((await talk.ask({ type: 'unsubscribe' })).message, 'tables is required')
  assert.equal((await talk.ask({ type: 'auth' })).message, 'token is required')
  assert.deepEqual(await talk.ask({ type: 'ping' }), { type: 'reply', ref: 'r11', status: 'ok' })
  talk.say({ type: 'ping' })
  await talk.until(({ type, ref }) => type === 'reply' && ref === null)
  talk.say({ type: 'ping', ref: 7 })
  await talk.until(({ ref }) => ref === 7)
  talk.close()
})

test('what is no message is said so nine times; the tenth ends the connection', async () => {
  const talk = await talkTo(api.url)
  const nonsense = ['', 'x', '[]', 'null', '1', '{}', '{"type":"shout"}', '{"type":"ping","ref":{}}', '"ping"']
  for (const text of nonsense) talk.say(text)
  assert.equal((await talk.ask({ type: 'ping' })).status, 'ok')
  assert.deepEqual(
    talk.heard.filter(({ type }) => type === 'error'),
    nonsense.map(() => ({ type: 'error', error: 'invalid_body', message: 'invalid message' })),
  )
  talk.say('{"type"')
  assert.equal(await talk.closed(), 1008)
})

test('numbers keep all their digits, and a record of any length arrives', async () => {
  const talk = await talkTo(api.url)
  await talk.ask({ type: 'subscribe', tables: ['posts'] })
  const raw: string[] = []
  talk.ws.on('message', (data) => raw.push(data.toString()))
  const lengths = [60, 110, 125, 126, 127, 65_400, 65_536, 70_000, 200_000]
  for (const length of lengths) {
    const body = `{"id": ${++lastRow}, "title": "${'ä'.repeat(length / 2)}", "big": 9007199254740993.00000000001}`
    await api.call('POST /api/collections/posts', { body, headers: { 'content-type': 'application/json' } })
  }
  await eventually(() => assert.equal(talk.events().length, lengths.length))
  assert.ok(raw.every((text) => text.includes('9007199254740993.00000000001')))
  talk.close()
})

test('a plain request is 426', async () => {
  const plain = await api.call('GET /api/realtime/ws')
  assert.deepEqual(plain.body, { code: 426, error: 'upgrade_required', message: 'websocket upgrade required' })
  assert.equal(plain.headers.get('upgrade'), 'websocket')
})

test('pages of foreign origins are 403, those of listed ones and our own are let in', async () => {
  const strict = await startServer({
    on: api,
    config: { 'auth.enabled': false, 'server.cors_origins': ['https://a.test'] },
  })
  await assert.rejects(
    talkTo(strict.url, { headers: { Origin: 'https://evil.test' } }),
    /refused 403 .*origin not allowed/,
  )
  await assert.rejects(talkTo(strict.url, { headers: { Origin: 'null' } }), /refused 403/)
  for (const headers of [{ Origin: 'https://a.test' }, { Origin: strict.url }, {}]) {
    const talk = await talkTo(strict.url, { headers: headers as Record<string, string> })
    await talk.until(({ type }) => type === 'connected')
    talk.close()
  }
  const open = await talkTo(api.url, { headers: { Origin: 'https://anything.test' } })
  open.close()
  await strict.stop()
})

test('without realtime there is no WebSocket', async () => {
  const off = await startServer({ on: api, config: { 'realtime.enabled': false, 'auth.enabled': false } })
  await assert.rejects(talkTo(off.url), /refused 404 .*realtime is not enabled/)
  await off.stop()
})

test('a stopping server closes with 1012, and the client resumes at another', async () => {
  const short = await startServer({ on: api, config: { 'auth.enabled': false } })
  const talk = await talkTo(short.url)
  await talk.ask({ type: 'subscribe', tables: ['posts'] })
  const one = await write('posts')
  await talk.until(({ record }) => record?.id === one)
  const stopped = short.stop()
  assert.equal(await talk.closed(), 1012)
  await stopped
  const two = await write('posts')
  const again = await talkTo(api.url)
  await again.ask({ type: 'subscribe', tables: ['posts'], last_id: talk.lastId() })
  await again.until(({ record }) => record?.id === two)
  assert.equal(again.events().length, 1)
  again.close()
})
