import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer({ config: { 'auth.enabled': false, 'realtime.heartbeat_interval': 1 } })
  await api.sql(`create table posts (id serial primary key, title text, score numeric, big bigint);
    create table other (a int, b text, primary key (a, b));
    create table keyless (v text);
    grant all on posts, other, keyless to svc_anon; grant all on all sequences in schema public to svc_anon`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/keyless')).status, 200))
})

test('a stream begins with its position and then tells creates, updates and deletes in order', async () => {
  const stream = await listenTo(api.url, { query: { tables: 'posts' } })
  assert.equal(stream.status, 200)
  assert.equal(stream.headers['content-type'], 'text/event-stream')
  assert.equal(stream.headers['cache-control'], 'no-cache')
  assert.equal(stream.headers['x-accel-buffering'], 'no')
  const connected = await stream.until(({ event }) => event === 'connected')
  assert.match(connected.id, /^\d+-\d+$/)
  assert.equal(connected.data.position, connected.id)
  assert.match(connected.data.clientId, /^[0-9a-f-]{36}$/)
  assert.match(stream.text(), /^retry: \d+$/m)

  const made = await api.call('POST /api/collections/posts', { json: { title: 'hi\nthere', score: 1.5 } })
  assert.equal(made.status, 201)
  const { id } = made.body
  await api.call(`PATCH /api/collections/posts/${id}`, { json: { title: 'ho' } })
  await api.call(`DELETE /api/collections/posts/${id}`)
  await stream.until(({ data }) => data.action === 'delete')
  assert.deepEqual(stream.changes(), [
    { action: 'create', table: 'posts', record: { id, title: 'hi\nthere', score: 1.5, big: null } },
    { action: 'update', table: 'posts', record: { id, title: 'ho', score: 1.5, big: null } },
    { action: 'delete', table: 'posts', record: { id } },
  ])
  assert.ok(stream.events.every((event) => event.id !== ''))
  stream.close()
})

test('numbers keep all their digits', async () => {
  const stream = await listenTo(api.url, { query: { tables: 'posts' } })
  await api.call('POST /api/collections/posts', {
    body: '{"big": 9007199254740993, "score": 0.10000000000000000001}',
    headers: { 'content-type': 'application/json' },
  })
  await stream.until(({ event }) => event === 'message')
  assert.match(stream.text(), /9007199254740993/)
  assert.match(stream.text(), /0\.10000000000000000001/)
  stream.close()
})

test('tables limit the stream, names may be qualified, and a batch arrives whole', async () => {
  const one = await listenTo(api.url, { query: { tables: 'public.other' } })
  const all = await listenTo(api.url)
  const answer = await api.call('POST /api/collections/other/batch', {
    json: {
      operations: [
        { method: 'create', body: { a: 1, b: 'x,y' } },
        { method: 'create', body: { a: 2, b: 'z' } },
        { method: 'delete', id: '2,z' },
      ],
    },
  })
  assert.equal(answer.status, 200, answer.text)
  await api.call('POST /api/collections/posts', { json: { title: 'elsewhere' } })
  await all.until(({ data }) => data.table === 'posts')
  await one.until(({ data }) => data.action === 'delete')
  const expected = [
    { action: 'create', table: 'other', record: { a: 1, b: 'x,y' } },
    { action: 'create', table: 'other', record: { a: 2, b: 'z' } },
    { action: 'delete', table: 'other', record: { a: 2, b: 'z' } },
  ]
  assert.deepEqual(one.changes(), expected)
  assert.deepEqual(all.changes().slice(0, 3), expected)
  one.close()
  all.close()
})

test('a table without key is told too, its deletes as {}', async () => {
  const stream = await listenTo(api.url, { query: { tables: 'keyless' } })
  await api.call('POST /api/collections/keyless', { json: { v: 'x' } })
  assert.deepEqual((await stream.until(({ event }) => event === 'message')).data.record, { v: 'x' })
  stream.close()
})

test('a failed batch is told to nobody', async () => {
  const stream = await listenTo(api.url, { query: { tables: 'other' } })
  const answer = await api.call('POST /api/collections/other/batch', {
    json: {
      operations: [
        { method: 'create', body: { a: 50, b: 'x' } },
        { method: 'delete', id: '51,none' },
      ],
    },
  })
  assert.equal(answer.status, 404)
  await api.call('POST /api/collections/other', { json: { a: 60, b: 'after' } })
  await stream.until(({ event }) => event === 'message')
  assert.deepEqual(
    stream.changes().map(({ record }) => record.a),
    [60],
  )
  stream.close()
})

test('unknown tables are refused before the stream', async () => {
  for (const name of ['missing', 'pg_class', 'svc.changes', 'posts,missing', 'information_schema.tables']) {
    const answer = await api.call(`GET /api/realtime?tables=${name}`)
    assert.equal(answer.status, 400)
    assert.deepEqual(answer.body, {
      code: 400,
      error: 'unknown_table',
      message: `unknown table: ${name.split(',').at(-1)}`,
    })
  }
  const many = Array.from({ length: 10_000 }, (_, i) => `t${i}`).join(',')
  const answer = await api.call(`GET /api/realtime?tables=${many}`)
  assert.ok(answer.status === 400 || answer.status === 431)
})

test('a filter chooses by the new row on create, by either on update, by the old one on delete', async () => {
  const stream = await listenTo(api.url, { query: { tables: 'posts', filter: "title='in' AND score>1" } })
  const make = async (title: string, score: number): Promise<number> =>
    (await api.call('POST /api/collections/posts', { json: { title, score } })).body.id
  const [inside, outside, low] = [await make('in', 2), await make('out', 2), await make('in', 1)]
  await api.call(`PATCH /api/collections/posts/${outside}`, { json: { title: 'in' } })
  await api.call(`PATCH /api/collections/posts/${inside}`, { json: { title: 'out' } })
  await api.call(`DELETE /api/collections/posts/${low}`)
  await api.call(`DELETE /api/collections/posts/${inside}`)
  await api.call(`DELETE /api/collections/posts/${outside}`)
  await stream.until(({ data }) => data.action === 'delete')
  assert.deepEqual(
    stream.changes().map(({ action, record }) => [action, record.id]),
    [
      ['create', inside],
      ['update', outside],
      ['update', inside],
      ['delete', outside],
    ],
  )
  stream.close()
})

test('bad filters are refused before the stream', async () => {
  const refusals: [string, string][] = [
    ['filter=title%3D1', 'filter requires exactly one table'],
    ['tables=posts,other&filter=title%3D1', 'filter requires exactly one table'],
    ['tables=posts&filter=nope%3D1', 'invalid filter: unknown column: nope'],
    ['tables=posts&filter=title%3D', 'invalid filter: unexpected "end of filter" at position 7'],
    ['tables=posts&filter=a.b%3D1', 'invalid filter: unknown relation: a'],
  ]
  for (const [query, message] of refusals) {
    const { body } = await api.call(`GET /api/realtime?${query}`)
    assert.deepEqual(body, { code: 400, error: 'invalid_filter', message })
  }
  const cast = await api.call(`GET /api/realtime?tables=posts&filter=id%3D'x'`)
  assert.equal(cast.status, 400)
  assert.match(cast.body.message, /^invalid filter: /)
})

test('a heartbeat keeps the stream alive', async () => {
  const stream = await listenTo(api.url, { query: { tables: 'posts' } })
  await eventually(() => assert.match(stream.text(), /^: ping$/m))
  stream.close()
})

test('a stream resumes where it stopped, on any server, and says so', async () => {
  const there = await startServer({ on: api, config: { 'auth.enabled': false } })
  const before = await listenTo(api.url, { query: { tables: 'posts' } })
  await api.call('POST /api/collections/posts', { json: { title: 'seen' } })
  await before.until(({ event }) => event === 'message')
  before.close()
  for (const title of ['one', 'two', 'three']) await api.call('POST /api/collections/posts', { json: { title } })

  for (const [server, ask] of [
    [api, { headers: { 'last-event-id': before.lastId() } }],
    [there, { query: { lastEventId: before.lastId() } }],
  ] as const) {
    const { query = {}, ...rest } = ask as { query?: Record<string, string>; headers?: Record<string, string> }
    const after = await listenTo(server.url, { ...rest, query: { tables: 'posts', ...query } })
    const connected = await after.until(({ event }) => event === 'connected')
    assert.equal(connected.id, before.lastId())
    await after.until(({ data }) => data.record?.title === 'three')
    await api.call('POST /api/collections/posts', { json: { title: 'live' } })
    await after.until(({ data }) => data.record?.title === 'live')
    const titles = after.changes().map(({ record }) => record.title)
    assert.deepEqual(titles.slice(0, 3), ['one', 'two', 'three'])
    assert.equal(titles.at(-1), 'live')
    after.close()
  }
  await there.stop()
})

test('a write through one server is on the stream of another', async () => {
  const there = await startServer({ on: api, config: { 'auth.enabled': false } })
  const stream = await listenTo(there.url, { query: { tables: 'posts' } })
  await api.call('POST /api/collections/posts', { json: { title: 'warm' } })
  await stream.until(({ data }) => data.record?.title === 'warm')
  await api.call('POST /api/collections/posts', { json: { title: 'quick' } })
  await stream.until(({ data }) => data.record?.title === 'quick')
  stream.close()
  await there.stop()
})

test('an unknown or trimmed position is answered with a reset, and the stream goes on from there', async () => {
  for (const made of ['1-1', 'nonsense', '99999999-1', '../x']) {
    const stream = await listenTo(api.url, { query: { tables: 'posts' }, headers: { 'last-event-id': made } })
    const reset = await stream.until(({ event }) => event === 'reset')
    assert.equal(reset.data.position, reset.id)
    await api.call('POST /api/collections/posts', { json: { title: made } })
    await stream.until(({ data }) => data.record?.title === made)
    stream.close()
  }
})

test('an empty position means a fresh stream', async () => {
  const stream = await listenTo(api.url, { query: { tables: 'posts', lastEventId: '' } })
  await stream.until(({ event }) => event === 'connected')
  assert.ok(!stream.text().includes('event: reset'))
  stream.close()
})

test('a table made a moment ago can be listened to', async () => {
  await api.sql('create table fresh (id int primary key); grant all on fresh to svc_anon')
  const stream = await listenTo(api.url, { query: { tables: 'fresh' } })
  assert.equal(stream.status, 200)
  const made = await api.call('POST /api/collections/fresh', { json: { id: 1 } })
  assert.equal(made.status, 201)
  await stream.until(({ data }) => data.record?.id === 1)
  stream.close()
})

test('the position of the header wins over the older one in the URL', async () => {
  const first = await listenTo(api.url, { query: { tables: 'posts' } })
  const { id: start } = await first.until(({ event }) => event === 'connected')
  for (const title of ['p1', 'p2']) await api.call('POST /api/collections/posts', { json: { title } })
  const { id: later } = await first.until(({ data }) => data.record?.title === 'p2')
  first.close()
  const headers = { 'last-event-id': later }
  const again = await listenTo(api.url, { query: { tables: 'posts', lastEventId: start }, headers })
  assert.equal((await again.until(({ event }) => event === 'connected')).id, later)
  again.close()
})

test('a watched table tells of writers outside the API, and of API writes once', async () => {
  await api.sql(`select svc.watch('public.other')`)
  await eventually(async () => {
    const stream = await listenTo(api.url, { query: { tables: 'other' } })
    const a = 1_000 + Math.floor(Math.random() * 1e6)
    await api.sql(`insert into other values (${a}, 'outside')`)
    await api.call('POST /api/collections/other', { json: { a: a + 1, b: 'api' } })
    await api.sql(`delete from other where a = ${a}`)
    await stream.until(({ data }) => data.action === 'delete')
    stream.close()
    assert.deepEqual(
      stream.changes().map(({ action, record }) => [action, record.a]),
      [
        ['create', a],
        ['create', a + 1],
        ['delete', a],
      ],
    )
  })
})

test('HEAD tells the headers and opens nothing', async () => {
  const answer = await api.call('HEAD /api/realtime?tables=posts')
  assert.deepEqual([answer.status, answer.headers.get('content-type')], [200, 'text/event-stream'])
})

test('without realtime there is no stream', async () => {
  const off = await startServer({ on: api, config: { 'realtime.enabled': false, 'auth.enabled': false } })
  const answer = await off.call('GET /api/realtime')
  assert.deepEqual(answer.body, { code: 404, error: 'feature_disabled', message: 'realtime is not enabled' })
  await off.stop()
})

test('a stopping server sends its clients away with a retry time', async () => {
  const short = await startServer({ on: api, config: { 'auth.enabled': false } })
  const stream = await listenTo(short.url)
  await stream.until(({ event }) => event === 'connected')
  await short.stop()
  await stream.ended()
  assert.match(stream.text(), /retry: \d+\n\n$/)
})
