import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listenTo } from '../../kit/event-stream.ts'
import { eventually, startServer } from '../../kit/kit.ts'
import { caughtUp, type Node, startReplicated, urlOf } from '../../kit/replicated.ts'

test('a primary that is superseded while it still answers is left', async () => {
  const nodes = await startReplicated(2)
  const [old, standby] = nodes as [Node, Node]
  const api = await startServer({ config: { 'database.url': urlOf(nodes), 'database.acquire_timeout': 60 } })
  await old.sql('create table notes (id int primary key, title text)')
  let id = 0
  const create = () => api.call('POST /api/collections/notes', { json: { id: id++, title: 'n' } })
  await eventually(async () => assert.equal((await create()).status, 201))
  await caughtUp(old, standby)
  standby.promote()
  await eventually(async () => {
    assert.equal((await create()).status, 201)
    assert.ok(
      (await standby.sql('select 1 from notes where id = $1', [id - 1])).length === 1,
      'writes reach the new primary',
    )
  })
})

test('of two that say they are primary it is the one of the later timeline; what the other had alone is not mistaken for it', async () => {
  const nodes = await startReplicated(2)
  const [old, standby] = nodes as [Node, Node]
  const api = await startServer({ config: { 'database.url': urlOf(nodes), 'database.acquire_timeout': 60 } })
  await old.sql('create table notes (id int primary key, title text)')
  const create = (id: number) => api.call('POST /api/collections/notes', { json: { id, title: 'n' } })
  await eventually(async () => assert.equal((await create(1)).status, 201))
  await caughtUp(old, standby)
  const { token } = await api.signUp('ann@x.test')
  const stream = await listenTo(api.url, { token, query: { tables: 'notes' } })
  await standby.sql('select pg_wal_replay_pause()')
  await standby.stop()
  assert.equal((await create(2)).status, 201)
  const lost = await stream.until(({ data }) => data.record?.id === 2)
  stream.close()

  // The standby comes back alone and is promoted without what it never received.
  await old.stop('SIGQUIT')
  await standby.start()
  standby.promote()
  await eventually(async () => assert.equal((await create(3)).status, 201), { seconds: 30 })
  // The old one comes back and still believes to be primary.
  await old.start()
  for (let id = 4; id < 40; id++) assert.equal((await create(id)).status, 201)
  const idsOn = async (node: Node) => (await node.sql('select id from notes order by id')).map(({ id }) => Number(id))
  assert.ok((await idsOn(standby)).includes(39))
  assert.deepEqual(await idsOn(old), [1, 2])

  // It has written past the position that was lost since, and still knows it as lost.
  const again = await listenTo(api.url, { token, query: { tables: 'notes' }, headers: { 'last-event-id': lost.id } })
  await again.until(({ event }) => event === 'reset')
  again.close()
})
