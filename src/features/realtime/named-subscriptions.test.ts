import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { type Talker, talkTo } from '../../../test/kit/web-socket.ts'

let api: InProcessServer
before(async () => {
  api = await startServer({ config: { 'auth.enabled': false } })
  await api.sql(`create table posts (id int primary key, kind text); create table notes (id int primary key);
    grant all on posts, notes to svc_anon`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/notes')).status, 200))
})

let lastRow = 0
const write = async (kind: string): Promise<number> => {
  const id = ++lastRow
  assert.equal((await api.call('POST /api/collections/posts', { json: { id, kind } })).status, 201)
  return id
}
const heard = (talk: Talker) => talk.events().map(({ sub, record }) => [sub, record.id])

test('one table under several names, each with its own filter, on one WebSocket', async () => {
  const talk = await talkTo(api.url)
  await talk.ask({ type: 'subscribe', tables: 'posts', filter: `kind = 'a'`, sub: 'first' })
  await talk.ask({ type: 'subscribe', tables: 'posts', filter: `kind = 'b'`, sub: 'second' })
  await talk.ask({ type: 'subscribe', tables: 'posts' })
  const [a, b, c] = [await write('a'), await write('b'), await write('c')]
  await eventually(() => assert.equal(talk.events().length, 5))
  const of = (name?: string) => heard(talk).flatMap(([sub, id]) => (sub === name ? [id] : []))
  assert.deepEqual([of('first'), of('second'), of()], [[a], [b], [a, b, c]])

  assert.equal((await talk.ask({ type: 'unsubscribe', sub: 'first' })).status, 'ok')
  const [again, last] = [await write('a'), await write('b')]
  await eventually(() => assert.deepEqual(of(), [a, b, c, again, last]))
  await eventually(() => assert.deepEqual(of('second'), [b, last]))
  assert.deepEqual(of('first'), [a])
  talk.close()
})

test('each name resumes where it was, and a reset names its subscription', async () => {
  const before = await talkTo(api.url)
  await before.ask({ type: 'subscribe', tables: 'posts', filter: `kind = 'a'`, sub: '1' })
  await write('a')
  await eventually(() => assert.equal(before.events().length, 1))
  const lastId = before.lastId()
  before.close()
  const [missed] = [await write('a'), await write('b')]
  const after = await talkTo(api.url)
  await after.ask({ type: 'subscribe', tables: 'posts', sub: 'live' })
  await after.ask({ type: 'subscribe', tables: 'posts', filter: `kind = 'a'`, sub: '1', last_id: lastId })
  await eventually(() =>
    assert.deepEqual(
      heard(after).filter(([sub]) => sub === '1'),
      [['1', missed]],
    ),
  )
  await after.ask({ type: 'subscribe', tables: 'notes', sub: 'lost', last_id: '1-1' })
  assert.equal((await after.until(({ type }) => type === 'reset')).sub, 'lost')
  after.close()
})

test('names are bounded: in length, and a hundred tables for all of them together', async () => {
  const talk = await talkTo(api.url)
  const long = await talk.ask({ type: 'subscribe', tables: 'posts', sub: 'x'.repeat(65) })
  assert.deepEqual([long.status, long.error], ['error', 'validation_failed'])
  for (let i = 0; i < 100; i++) {
    assert.equal((await talk.ask({ type: 'subscribe', tables: 'posts', sub: String(i) })).status, 'ok')
  }
  const more = await talk.ask({ type: 'subscribe', tables: 'posts', sub: 'more' })
  assert.equal(more.message, 'too many tables: max 100')
  await talk.ask({ type: 'unsubscribe', sub: '7' })
  assert.equal((await talk.ask({ type: 'subscribe', tables: 'posts', sub: 'more' })).status, 'ok')
  const nothing = await talk.ask({ type: 'unsubscribe' })
  assert.deepEqual([nothing.status, nothing.message], ['error', 'tables is required'])
  talk.close()
})
