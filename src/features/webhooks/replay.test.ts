import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startReceiver } from '../../../test/fakes/receiver.ts'
import { atEnd } from '../../../test/kit/at-end.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'webhooks.allow_private_networks': true } })
const receiver = await startReceiver()
atEnd(() => receiver.close())
await api.sql('create table notes (id int primary key, body text)')

test('a delivery is sent again with the same bytes and id, and is a delivery of its own', async () => {
  const { id } = (await api.call('POST /api/webhooks', { as: 'admin', json: { url: receiver.url, secret: 's' } })).body
  const long = 'x'.repeat(10_000)
  await api.call('POST /api/collections/notes', { as: 'admin', json: { id: 1, body: long } })
  await eventually(() => assert.equal(receiver.received.length, 1))
  const list = async () => (await api.call(`GET /api/webhooks/${id}/deliveries`, { as: 'admin' })).body.items
  const [first] = await eventually(async () => {
    const items = await list()
    assert.equal(items.length, 1)
    return items
  })
  const replay = `POST /api/webhooks/${id}/deliveries/${first.id}/replay` as const
  const { status, body } = await api.call(replay, { as: 'admin' })
  assert.deepEqual([status, body.success, body.attempt, body.eventId], [200, true, 2, first.eventId])
  const [one, two] = receiver.received
  assert.equal(two?.body, one?.body)
  assert.equal(two?.headers['webhook-id'], one?.headers['webhook-id'])
  assert.notEqual(two?.headers['x-svc-delivery'], one?.headers['x-svc-delivery'])
  assert.equal((await list()).length, 2)

  await api.sql('update svc.webhook_deliveries set whole_body = null')
  assert.equal((await api.call(replay, { as: 'admin' })).status, 409)
  const missing = `POST /api/webhooks/${id}/deliveries/${crypto.randomUUID()}/replay` as const
  assert.equal((await api.call(missing, { as: 'admin' })).status, 404)
})
