import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { createEmptyDatabase } from '../kit/cluster.ts'
import { eventually, spawnServer } from '../kit/kit.ts'

test('two processes start at once on an empty database: one migrates, both serve, both see new tables', async () => {
  const { url, drop } = await createEmptyDatabase()
  const on = { databaseUrl: url }
  const [one, two] = await Promise.all([spawnServer({ on }), spawnServer({ on })])

  const client = await openConnection({ url })
  const { rows } = await client.query('select name, count(*) from svc.migrations group by name having count(*) > 1')
  assert.deepEqual(rows, [])

  await client.query('create table from_outside (id int primary key)')
  await client.end()
  const { status } = await one.call('POST /api/admin/sql', {
    as: 'admin',
    json: { query: 'create table from_one (id int primary key)' },
  })
  assert.equal(status, 200)
  assert.equal((await one.call('GET /api/collections/from_one')).status, 200)
  for (const server of [one, two]) {
    await eventually(async () => assert.equal((await server.call('GET /api/collections/from_outside')).status, 200))
    await eventually(async () => assert.equal((await server.call('GET /api/collections/from_one')).status, 200))
  }
  const { token } = await one.signUp('ana@x.test')
  assert.equal((await two.call('GET /api/auth/me', { as: token })).body.email, 'ana@x.test')

  await Promise.all([one.stop(), two.stop()])
  await drop()
})
