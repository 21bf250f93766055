import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../test/kit/kit.ts'

const api = await startServer()
await api.sql(`create table notes (id int primary key, title text); grant all on notes to svc_anon, svc_authenticated`)
const ana = await api.signUp('ana@x.test')
const asked = { headers: { 'x-timing': '1' } }

function stagesOf(headers: Headers): Record<string, number> {
  const stages = (headers.get('server-timing') ?? '').split(', ').map((stage) => stage.split(';dur='))
  return Object.fromEntries(stages.map(([name, ms]) => [name, Number(ms)]))
}

test('the admin learns where the time of a request goes', async () => {
  const made = await api.call('POST /api/collections/notes', { as: 'admin', json: { id: 1, title: 'a' }, ...asked })
  const stages = stagesOf(made.headers)
  assert.deepEqual(Object.keys(stages), ['identify', 'guard', 'body', 'handler', 'reply', 'db', 'total'])
  const { db = 0, handler = 0, total = 0 } = stages
  assert.ok(db > 0 && db <= handler && handler < total, JSON.stringify(stages))
})

test('a transaction counts as waiting, and a failure is timed too', async () => {
  const bucket = await api.call('DELETE /api/admin/storage/buckets/none', { as: 'admin', ...asked })
  assert.equal(bucket.status, 404)
  assert.ok((stagesOf(bucket.headers)['db'] ?? 0) > 0)
})

test('nobody else does, and nobody who does not ask', async () => {
  for (const options of [{ as: 'admin' }, { as: ana.token, ...asked }, asked, { as: 'wrong', ...asked }]) {
    const { headers } = await api.call('GET /api/collections/notes', options)
    assert.equal(headers.get('server-timing'), null)
  }
})
