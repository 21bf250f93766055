import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Receiver, startReceiver } from '../../../test/fakes/receiver.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { openConnection } from '../../db/protocol/driver.ts'

let api: InProcessServer
let away: Receiver
before(async () => {
  api = await startServer({ config: { 'webhooks.retry_delays': [600] } })
  await api.sql(`create table posts (id int primary key, title text); insert into posts values (1, 'start');
    select svc.watch('posts')`)
  away = await startReceiver((_request, response) => void response.writeHead(500).end())
})
after(() => away.close())

test('what a transaction that began early changed late waits behind the change that was committed first', async () => {
  const json = { url: away.url, events: ['update'] }
  assert.equal((await api.call('POST /api/webhooks', { as: 'admin', json })).status, 201)
  const early = await openConnection({ url: api.databaseUrl })
  await early.query('begin; select pg_current_xact_id()')
  const first = await api.call('PATCH /api/collections/posts/1', { as: 'admin', json: { title: 'first' } })
  assert.equal(first.status, 200)
  await early.query(`update posts set title = 'second' where id = 1`)
  await early.query('commit')
  await early.end()

  const waiting = await eventually(async () => {
    const rows = await api.sql(`select payload ->> 'body' as body from svc.queue order by id`)
    assert.equal(rows.length, 2)
    return rows
  })
  assert.deepEqual(
    waiting.map(({ body }) => JSON.parse(body).record.title),
    ['first', 'second'],
  )
})
