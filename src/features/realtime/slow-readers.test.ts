import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type EventReader, listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

test('a client that does not read is let go and resumes without loss; others hear everything in time', async () => {
  const api = await startServer({ config: { 'auth.enabled': false, 'realtime.buffer_size': 65_536 } })
  await api.sql('create table big (id int primary key, body text); grant all on big to svc_anon')
  await eventually(async () => assert.equal((await api.call('GET /api/collections/big')).status, 200))
  const [slow, good] = [
    await listenTo(api.url, { query: { tables: 'big' } }),
    await listenTo(api.url, { query: { tables: 'big' } }),
  ]
  await slow.until(({ event }) => event === 'connected')
  slow.pause()
  // More than the socket buffers of both ends and the stream's own hold.
  const body = 'x'.repeat(50_000)
  const count = 400
  for (let id = 1; id <= count; id += 10) {
    const operations = Array.from({ length: 10 }, (_, i) => ({ method: 'create', body: { id: id + i, body } }))
    assert.equal((await api.call('POST /api/collections/big/batch', { json: { operations } })).status, 200)
  }
  await eventually(() => assert.equal(good.changes().length, count))

  slow.resume()
  await slow.ended()
  const ids = slow.changes().map(({ record }) => record.id)
  assert.ok(ids.length < count, 'the slow client was never let go')
  let last = slow.lastId()
  for (let tries = 0; ids.length < count && tries < 50; tries++) {
    const again: EventReader = await listenTo(api.url, { query: { tables: 'big' }, headers: { 'last-event-id': last } })
    await eventually(() => assert.ok(again.closed || again.changes().length + ids.length === count))
    ids.push(...again.changes().map(({ record }) => record.id))
    last = again.lastId()
    again.close()
  }
  assert.deepEqual(
    ids,
    Array.from({ length: count }, (_, i) => i + 1),
  )
  good.close()
})

test('a long replay waits for its client instead of letting it go', async () => {
  const api = await startServer({ config: { 'auth.enabled': false, 'realtime.buffer_size': 65_536 } })
  await api.sql('create table big (id int primary key, body text); grant all on big to svc_anon')
  await eventually(async () => assert.equal((await api.call('GET /api/collections/big')).status, 200))
  const first = await listenTo(api.url, { query: { tables: 'big' } })
  await first.until(({ event }) => event === 'connected')
  first.close()
  const body = 'x'.repeat(20_000)
  const count = 1_200
  for (let id = 1; id <= count; id += 100) {
    const operations = Array.from({ length: 100 }, (_, i) => ({
      method: 'create',
      body: { id: id + i, body: body.slice(0, 8_000) },
    }))
    const made = await api.call('POST /api/collections/big/batch', { json: { operations } })
    assert.equal(made.status, 200, made.text.slice(0, 200))
  }
  const again = await listenTo(api.url, { query: { tables: 'big' }, headers: { 'last-event-id': first.lastId() } })
  await eventually(() => assert.equal(again.changes().length, count))
  assert.deepEqual(
    again.changes().map(({ record }) => record.id),
    Array.from({ length: count }, (_, i) => i + 1),
  )
  assert.equal(again.closed, false)
  again.close()
})
