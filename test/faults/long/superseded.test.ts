import assert from 'node:assert/strict'
import { test } from 'node:test'
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
