import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../../test/kit/kit.ts'

test('aggregates of columns with names of 63 bytes have keys of their own', async () => {
  const api = await startServer()
  const name = 'a'.repeat(62)
  await api.sql(
    `create table t (id int primary key, ${name}b int, ${name}c int); insert into t values (1, 2, 3), (4, 5, 6)`,
  )
  const functions = `sum(${name}b),sum(${name}c),count_distinct(${name}b),max(${name}b)`
  const path = `GET /api/collections/t?aggregate=${functions}&group=id` as const
  const { status, body } = await api.call(`${path}&sort=-sum_${name}c`)
  assert.equal(status, 200)
  const item = (id: number, b: number, c: number) => ({
    id,
    [`sum_${name}b`]: b,
    [`sum_${name}c`]: c,
    [`count_distinct_${name}b`]: 1,
    [`max_${name}b`]: b,
  })
  assert.deepEqual(body.items, [item(4, 5, 6), item(1, 2, 3)])
  const empty = await api.call('GET /api/collections/t?aggregate=count,max(id)&filter=id<0')
  assert.deepEqual(empty.body.items, [{ count: 0, max_id: null }])
})
