import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
for (const name of ['ana', 'bo', 'cy_1', 'cyx1', 'dee']) await api.signUp(`${name}@x.test`)
const list = (query = '') => api.call(`GET /api/admin/users${query}`, { as: 'admin' })
const emails = (body: { items: { email: string }[] }) => body.items.map(({ email }) => email)

test('an admin pages through users, newest first', async () => {
  const { status, body } = await list('?perPage=2')
  assert.equal(status, 200)
  assert.deepEqual(
    { ...body, items: emails(body) },
    {
      items: ['dee@x.test', 'cyx1@x.test'],
      page: 1,
      perPage: 2,
      totalItems: 5,
      totalPages: 3,
    },
  )
  assert.deepEqual(emails((await list('?perPage=2&page=3')).body), ['ana@x.test'])
  const past = (await list('?page=99')).body
  assert.deepEqual([past.items, past.totalItems, past.page], [[], 5, 99])
  for (const [query, page, perPage] of [
    ['?page=0&perPage=0', 1, 20],
    ['?page=x&perPage=x', 1, 20],
    ['?page=-1&perPage=1000', 1, 100],
    ['?page=999999999999', 100_000, 20],
    ['?page=1%27--', 1, 20],
  ] as const) {
    const { body } = await list(query)
    assert.deepEqual([body.page, body.perPage], [page, perPage], query)
  }
  assert.deepEqual(Object.keys(body.items[0]), [
    'id',
    'email',
    'emailVerified',
    'is_anonymous',
    'createdAt',
    'updatedAt',
  ])
})

test('search takes any part of the address in any case, and nothing as a pattern', async () => {
  for (const [search, found] of [
    ['ANA', ['ana@x.test']],
    ['cy_1', ['cy_1@x.test']],
    ['%', []],
    ['\\', []],
    ["' or 1=1", []],
    ['@x.test', 5],
    ['', 5],
  ] as const) {
    const { body } = await list(`?search=${encodeURIComponent(search)}`)
    if (typeof found === 'number') assert.equal(body.totalItems, found)
    else assert.deepEqual(emails(body), found, search)
  }
  const none = (await list('?search=nobody')).body
  assert.deepEqual([none.totalItems, none.totalPages], [0, 0])
})

test('deleting a user takes their sessions and keys along', async () => {
  const { user, token } = await api.signUp('gone@x.test')
  const key = (await api.call('POST /api/auth/api-keys', { as: token, json: { name: 'k' } })).body.key
  assert.equal((await api.call('GET /api/auth/me', { as: key })).status, 200)
  assert.equal((await api.call(`DELETE /api/admin/users/${user.id}`, { as: 'admin' })).status, 204)
  for (const as of [token, key]) assert.equal((await api.call('GET /api/auth/me', { as })).status, 401)
  const again = await api.call(`DELETE /api/admin/users/${user.id}`, { as: 'admin' })
  assert.deepEqual([again.status, again.body.message], [404, 'user not found'])
  const bad = await api.call('DELETE /api/admin/users/7', { as: 'admin' })
  assert.deepEqual([bad.status, bad.body.message], [400, 'invalid user id format'])
  const none = await api.call('DELETE /api/admin/users/', { as: 'admin' })
  assert.deepEqual([none.status, none.body.message], [400, 'missing id'])
  const audit = await api.call('GET /api/admin/audit?action=user.delete', { as: 'admin' })
  assert.equal(audit.body.items[0].target, user.id)
})
