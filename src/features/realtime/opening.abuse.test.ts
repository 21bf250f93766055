import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { talkTo } from '../../../test/kit/web-socket.ts'
import { openConnection } from '../../db/protocol/driver.ts'
import { Flight } from '../../db/protocol/flight.ts'

let api: InProcessServer
before(async () => {
  api = await startServer({ config: { 'auth.enabled': false } })
  await api.sql(`create table posts (id int primary key); create table more (id int primary key);
    grant all on posts, more to svc_anon; select svc.watch('posts'), svc.watch('more')`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/more')).status, 200))
})

test('a stream that opens is told of what is committed from then on, however far the server is behind', async () => {
  const witness = await listenTo(api.url)
  const long = await openConnection({ url: api.databaseUrl })
  await long.query('begin; insert into posts values (1)')
  for (const table of ['posts', 'more']) await api.call(`POST /api/collections/${table}`, { json: { id: 2 } })
  // Both are committed, and the server cannot tell anyone yet.
  const stream = await listenTo(api.url)
  const talk = await talkTo(api.url)
  await talk.ask({ type: 'subscribe', tables: ['posts'] })
  await talk.ask({ type: 'subscribe', tables: ['more'] })
  await api.call('POST /api/collections/more', { json: { id: 3 } })
  await long.query('commit')
  await api.call('POST /api/collections/posts', { json: { id: 4 } })
  const rows = (changes: { table: string; record: { id: number } }[]) =>
    changes.map(({ table, record }) => `${table} ${record.id}`).sort()
  await witness.until(({ data }) => data?.record?.id === 4)
  assert.deepEqual(rows(witness.changes()), ['more 2', 'more 3', 'posts 1', 'posts 2', 'posts 4'])
  await stream.until(({ data }) => data?.record?.id === 4)
  assert.deepEqual(rows(stream.changes()), ['more 3', 'posts 1', 'posts 4'])
  await talk.until(({ record }) => record?.id === 4)
  assert.deepEqual(rows(talk.events()), ['more 3', 'posts 1', 'posts 4'])
  for (const one of [witness, stream, talk]) one.close()
  await long.end()
})

test('of hundreds of subscriptions to the past a few are replayed, the rest is refused at a slow pace', async (t) => {
  const talk = await talkTo(api.url)
  const { position } = await talk.ask({ type: 'subscribe', tables: ['posts'] })
  for (let id = 100; id < 110; id++) await api.call('POST /api/collections/posts', { json: { id } })
  await talk.until(({ record }) => record?.id === 109)
  const ended = t.mock.method(Flight.prototype, 'end')
  const started = performance.now()
  for (let i = 0; i < 200; i++) talk.say({ type: 'subscribe', tables: ['posts'], last_id: position, ref: i })
  await talk.until(({ ref }) => ref === 199)
  const took = performance.now() - started
  const replies = talk.heard.filter(({ type, ref }) => type === 'reply' && typeof ref === 'number')
  const refused = replies.filter(({ status }) => status === 'error')
  assert.equal(replies.length, 200)
  assert.deepEqual(
    [...new Set(refused.map(({ error, message }) => `${error}: ${message}`))],
    ['rate_limited: too many messages'],
  )
  assert.ok(replies.length - refused.length <= 150, `${replies.length - refused.length} were taken`)
  assert.ok(refused.length >= 50 && took >= refused.length * 15, `${refused.length} refusals in ${took} ms`)
  const replayed = ended.mock.calls.filter(({ this: flight }) =>
    (flight as Flight).plan.steps.some(({ text }) => text.includes('relrowsecurity')),
  )
  assert.ok(replayed.length <= 150, `${replayed.length} replays`)
  // A moment later it may go on.
  await eventually(async () => assert.equal((await talk.ask({ type: 'subscribe', tables: ['more'] })).status, 'ok'))
  talk.close()
})

test('messages that could be requests count as requests', async () => {
  const config = { 'auth.enabled': false, 'rate_limit.api_anonymous': '3/hour' }
  const limited = await startServer({ on: api, config })
  const talk = await talkTo(limited.url)
  const subscribe = async () => (await talk.ask({ type: 'subscribe', tables: ['posts'] })).error
  assert.deepEqual([await subscribe(), await subscribe(), await subscribe()], [undefined, undefined, 'rate_limited'])
  assert.equal((await talk.ask({ type: 'ping' })).status, 'ok')
  talk.close()
  await limited.stop()
})
