import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
await api.sql(`
  create table pairs (a int, b text, v int, primary key (a, b));
  insert into pairs values (1, '2', 10), (1, 'x,y', 20), (3, 'z', 3)`)

const read = async (id: string) => {
  const { status, body } = await api.call(`GET /api/collections/pairs/${id}`)
  return status === 200 ? body.v : status
}

test('composite keys are reached by clients that encode the whole id', async () => {
  assert.equal(await read('1,2'), 10)
  assert.equal(await read('1%2C2'), 10)
  assert.equal(await read('1,x%2Cy'), 20)
  assert.equal(await read('1%2Cx%2Cy'), 400)
  assert.equal(await read('1'), 400)
  const done = await api.call('PATCH /api/collections/pairs/3%2Cz', { json: { v: 4 } })
  assert.deepEqual([done.status, done.body], [200, { a: 3, b: 'z', v: 4 }])
})

test('a number with a fraction is compared with integers as a number', async () => {
  const found = async (filter: string) => {
    const { status, body } = await api.call(`GET /api/collections/pairs?sort=v&filter=${encodeURIComponent(filter)}`)
    return status === 200 ? body.items.map(({ v }: { v: number }) => v) : status
  }
  assert.deepEqual(await found('v>9.5'), [10, 20])
  assert.deepEqual(await found('v<=1e1'), [4, 10])
  assert.deepEqual(await found('v=10.5'), [])
  assert.deepEqual(await found('v IN (10.0, 2.5)'), [10])
  assert.equal(await found('v>1e400000'), 400)
  assert.equal(await found(`v>'abc'`), 400)
})

test('one slash at the end of a path is ignored, and meets the same guard', async () => {
  assert.equal((await api.call('GET /api/collections/pairs/')).status, 200)
  assert.equal((await api.call('GET /api/collections/pairs/1,2/')).status, 200)
  assert.equal((await api.call('GET /health/')).status, 200)
  assert.equal((await api.call('GET /api/admin/stats/')).status, 401)
  assert.equal((await api.call('GET /api/auth/me/')).status, 401)
  for (const path of ['/api/collections/pairs//', '/api//collections/pairs', '/health//', '///'] as const) {
    assert.equal((await api.call(`GET ${path}`)).status, 404, path)
  }
})
