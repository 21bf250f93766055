import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

test('the schema counts as a data route: visitors and users have as much of it as of rows', async () => {
  const config = { 'rate_limit.api_anonymous': '3/hour', 'rate_limit.api': '5/hour' }
  const api = await startServer({ config })
  const ana = await api.signUp('ana@x.test')
  for (const [as, max] of [
    [undefined, 3],
    [ana.token, 5],
  ] as const) {
    const statuses: number[] = []
    for (let i = 0; i <= max; i++) {
      statuses.push((await api.call('GET /api/schema', as === undefined ? {} : { as })).status)
    }
    assert.deepEqual(statuses, [...Array.from({ length: max }, () => 200), 429])
  }
  assert.equal((await api.call('GET /api/schema', { as: 'admin' })).status, 200)
})

test('who has the document already is told so in a few bytes', async () => {
  const api = await startServer()
  const first = await api.call('GET /api/schema')
  const etag = first.headers.get('etag') ?? ''
  assert.match(etag, /^"[\w-]{43}"$/)
  const again = await api.call('GET /api/schema', { headers: { 'if-none-match': etag } })
  assert.deepEqual([again.status, again.text], [304, ''])
  const query = 'create table brand_new_one (id int primary key)'
  assert.equal((await api.call('POST /api/admin/sql', { as: 'admin', json: { query } })).status, 200)
  const changed = await api.call('GET /api/schema', { headers: { 'if-none-match': etag } })
  assert.equal(changed.status, 200)
  assert.notEqual(changed.headers.get('etag'), etag)
})
