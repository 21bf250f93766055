import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../../test/kit/kit.ts'
import { openConnection } from '../../../db/protocol/driver.ts'

test('a transaction that has been open for a minute is named, with how to end it', async () => {
  const api = await startServer()
  const forgotten = await openConnection({ url: api.databaseUrl, applicationName: 'forgotten' })
  forgotten.on('error', () => {})
  await forgotten.query('begin; select 1')
  const advice = async () => (await api.call('GET /api/admin/advice', { as: 'admin' })).body.items
  assert.deepEqual(await advice(), [])
  const [item] = await eventually(
    async () => {
      const items = await advice()
      assert.equal(items.length, 1)
      return items
    },
    { seconds: 120 },
  )
  assert.equal(item.kind, 'long_transaction')
  assert.match(item.what, /forgotten/)
  await api.sql(item.sql)
  assert.deepEqual(await advice(), [])
})
