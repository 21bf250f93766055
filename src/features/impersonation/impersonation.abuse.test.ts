import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'rate_limit.api': '1000/min' } })
await api.sql(`create table notes (id int primary key, title text)`)
await api.call('POST /api/admin/sql', { as: 'admin', json: { query: 'create table reloaded ()' } })
const ana = await api.signUp('ana@x.test')
const admin = await api.adminToken()
const impersonate = async (json: object): Promise<string> =>
  (await api.call('POST /api/admin/impersonate', { as: admin, json })).body.token

/** Everything that takes such a token. Whatever is added elsewhere does not. */
const OPEN = [
  'GET /api/auth/me',
  'GET /api/collections/{table}',
  'GET /api/collections/{table}/export.csv',
  'GET /api/collections/{table}/export.json',
  'GET /api/collections/{table}/export.ndjson',
  'GET /api/collections/{table}/{id}',
  'GET /api/collections/{table}/{id}/history',
  'GET /api/realtime',
  'GET /api/realtime/ws',
  'GET /api/schema',
  'GET /api/storage/{bucket}',
  'GET /api/storage/{bucket}/{name...}',
  'DELETE /api/collections/{table}/{id}',
  'DELETE /api/storage/{bucket}/{name...}',
  'PATCH /api/collections/{table}/{id}',
  'POST /api/collections/{table}',
  'POST /api/collections/{table}/batch',
  'POST /api/collections/{table}/import',
  'POST /api/graphql',
  'POST /api/realtime/channels/{channel}',
  'POST /api/rpc/{function}',
  'POST /api/storage/{bucket}',
  'POST /api/storage/{bucket}/{name...}/copy',
  'POST /api/storage/{bucket}/{name...}/move',
  'PUT /api/storage/{bucket}/{name...}',
]

test('every other route refuses it, also with the right to write', async () => {
  const open = api.app.routes.filter(({ impersonable }) => impersonable)
  const names = open.map(({ method, path }) => `${method} ${path}`)
  assert.deepEqual(
    names.filter((name) => !OPEN.includes(name)),
    [],
  )
  const tokens = [await impersonate({ user_id: ana.user.id, write: true }), await impersonate({ anonymous: true })]
  const closed = api.app.routes.filter(
    ({ auth, impersonable, upgrade }) => auth !== 'none' && !impersonable && !upgrade,
  )
  assert.ok(closed.length > 60)
  for (const { method, path, auth } of closed) {
    for (const token of tokens) {
      const target = path.replace(/\{\w+(?:\.\.\.)?\}/g, 'x')
      const { status, body } = await api.call(`${method} ${target}` as 'GET /', { as: token })
      if (body.error === 'feature_disabled') continue
      assert.ok(auth === 'admin' ? status === 401 || status === 403 : status === 403, `${method} ${path} ${status}`)
    }
  }
})

test('a token of another form, a spent one and an invented one are nobody', async () => {
  for (const token of ['svc_im_', `svc_im_${'0'.repeat(64)}`, `svc_im_${'A'.repeat(64)}`, `svc_im_${'0'.repeat(63)}`]) {
    assert.equal((await api.call('GET /api/collections/notes', { as: token })).status, 401, token)
  }
  const token = await impersonate({ user_id: ana.user.id })
  await api.sql(`update svc.impersonations set expires_at = now() - interval '1 second'`)
  assert.equal((await api.call('GET /api/collections/notes', { as: token })).status, 401)
})

test('it keeps nothing for the user it acts as: no answers, no limits', async () => {
  const token = await impersonate({ user_id: ana.user.id, write: true })
  const headers = { 'idempotency-key': 'one-and-the-same-key' }
  const first = await api.call('POST /api/collections/notes', { as: ana.token, json: { id: 1 }, headers })
  const replayed = await api.call('POST /api/collections/notes', { as: token, json: { id: 1 }, headers })
  assert.deepEqual([first.status, replayed.status], [201, 409])
  const own = await api.call('GET /api/collections/notes', { as: ana.token })
  const left = Number(own.headers.get('x-ratelimit-remaining'))
  await api.call('GET /api/collections/notes', { as: token })
  const again = await api.call('GET /api/collections/notes', { as: ana.token })
  assert.equal(Number(again.headers.get('x-ratelimit-remaining')), left - 1)
})

test('it ends with the user too, and a deleted one is not there', async () => {
  const gone = await api.signUp('gone@x.test')
  const token = await impersonate({ user_id: gone.user.id })
  assert.equal((await api.call('GET /api/auth/me', { as: token })).status, 200)
  assert.equal((await api.call(`DELETE /api/admin/users/${gone.user.id}`, { as: admin })).status, 204)
  await eventually(async () => assert.equal((await api.call('GET /api/auth/me', { as: token })).status, 401))
})

test('claims cannot break out of their place', async () => {
  const sub = ana.user.id
  for (const claims of [
    { sub: `${sub}'; drop table notes` },
    { sub, email: 'a\0b' },
    { sub, org: 'no uuid' },
    { sub, x: '\0' },
    { sub, x: '\ud800' },
    { sub, x: 'y'.repeat(10_000) },
    { sub, aal: 'aal3' },
  ]) {
    const { status } = await api.call('POST /api/admin/impersonate', { as: admin, json: { claims } })
    assert.equal(status, 400, JSON.stringify(claims).slice(0, 80))
  }
  const token = await impersonate({ claims: { sub, constructor: 'c', x: `"'; --` } })
  assert.equal((await api.call('GET /api/collections/notes', { as: token })).status, 200)
})
