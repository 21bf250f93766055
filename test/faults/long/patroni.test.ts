import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startReceiver } from '../../fakes/receiver.ts'
import { listenTo } from '../../kit/event-stream.ts'
import { eventually, startServer } from '../../kit/kit.ts'
import { noPatroni, startPatroni } from '../../kit/patroni.ts'

const ROUNDS = Number(process.env['SVC_FAILOVERS'] ?? 5)
/** Of the service after a promotion; HAProxy itself looks every 200 ms. */
const BACK_WITHIN_MS = 2_000

test('Patroni, etcd and HAProxy: the leader is killed again and again, and nothing acknowledged is lost', {
  skip: noPatroni,
}, async () => {
  const cluster = await startPatroni()
  await cluster.isWhole()
  const api = await startServer({
    config: { 'database.url': cluster.url, 'database.acquire_timeout': 60, 'webhooks.allow_private_networks': true },
  })
  const run = async (query: string) => {
    const { status, body } = await api.call('POST /api/admin/sql', { as: 'admin', json: { query } })
    assert.equal(status, 200, JSON.stringify(body))
    return body.rows as unknown[][]
  }
  await run('create table notes (id int primary key, title text)')
  const receiver = await startReceiver()
  const hook = { url: receiver.url, events: ['create'], tables: ['notes'] }
  assert.equal((await api.call('POST /api/webhooks', { as: 'admin', json: hook })).status, 201)
  const { token } = await api.signUp('ann@x.test')
  const stream = await listenTo(api.url, { token, query: { tables: 'notes' } })

  const acknowledged: number[] = []
  let [next, isOver, lastAt] = [0, false, 0]
  const write = async () => {
    while (!isOver) {
      const id = next++
      const { status } = await api.call('POST /api/collections/notes', { json: { id, title: 'n' } })
      if (status !== 201) continue
      acknowledged.push(id)
      lastAt = performance.now()
    }
  }
  const writers = Promise.all([write(), write()])
  for (let round = 1; round <= ROUNDS; round++) {
    await eventually(() => assert.ok(acknowledged.length > round * 20))
    const old = await cluster.leader()
    assert.ok(old, 'there is a leader')
    await old.kill()
    const leader = await eventually(
      async () => {
        const found = await cluster.leader()
        assert.ok(found && found !== old)
        return found
      },
      { seconds: 120 },
    )
    // Patroni calls a node its leader while PostgreSQL on it still recovers.
    await eventually(() => leader.isPromoted(), { seconds: 120 })
    const promotedAt = performance.now()
    const before = acknowledged.length
    await eventually(() => assert.ok(acknowledged.length > before), { seconds: 60 })
    const gap = Math.max(0, lastAt - promotedAt)
    assert.ok(gap < BACK_WITHIN_MS, `round ${round}: back ${Math.round(gap)} ms after the promotion`)
    old.start()
    await cluster.isWhole()
  }
  isOver = true
  await writers

  const kept = new Set((await run('select id from notes')).map(([id]) => Number(id)))
  assert.deepEqual(
    acknowledged.filter((id) => !kept.has(id)),
    [],
    'acknowledged and lost',
  )
  await eventually(() => {
    const told = new Set(stream.changes().map(({ record }) => record.id))
    assert.deepEqual(
      [...kept].filter((id) => !told.has(id)),
      [],
      'not told by the stream',
    )
  })
  await eventually(() => {
    const told = new Set(receiver.received.map(({ body }) => JSON.parse(body).record?.id))
    assert.deepEqual(
      [...kept].filter((id) => !told.has(id)),
      [],
      'not told by the webhook',
    )
  })
  stream.close()
  await receiver.close()
})
