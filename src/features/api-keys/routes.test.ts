import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
const other = await startServer({ on: api })
await api.sql(`
  create table notes (id serial primary key, owner text default current_setting('svc.user_id', true), body text);
  create table tasks (id serial primary key, note_id int references notes, title text);
  alter table notes enable row level security;
  create policy own on notes using (owner = current_setting('svc.user_id', true))`)
await eventually(async () => assert.equal((await api.call('GET /api/collections/notes')).status, 200))

const ana = await api.signUp('ana@x.test')
const bo = await api.signUp('bo@x.test')
const refused = async (answer: Promise<Answer>, code: number, message: string) => {
  const { status, body } = await answer
  assert.deepEqual([status, body.code, body.message], [code, code, message])
}
const create = (as: string, json: unknown) => api.call('POST /api/auth/api-keys', { as, json })
const adminCreate = (json: unknown) => api.call('POST /api/admin/api-keys', { as: 'admin', json })

test('a key is shown once, and listed without itself', async () => {
  const made = await create(ana.token, { name: 'ci', scope: 'readonly', allowedTables: ['notes', 'nope'] })
  assert.equal(made.status, 201)
  assert.match(made.body.key, /^svc_[0-9a-f]{48}$/)
  const { id, createdAt, ...rest } = made.body.apiKey
  assert.match(id, /^[0-9a-f-]{36}$/)
  assert.match(createdAt, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  assert.deepEqual(rest, {
    userId: ana.user.id,
    name: 'ci',
    keyPrefix: made.body.key.slice(0, 12),
    scope: 'readonly',
    allowedTables: ['notes', 'nope'],
    appId: null,
    orgId: null,
    lastUsedAt: null,
    expiresAt: null,
    revokedAt: null,
  })
  const second = await create(ana.token, { name: 'two' })
  assert.equal(second.body.apiKey.scope, '*')
  const listed = await api.call('GET /api/auth/api-keys', { as: ana.token })
  assert.deepEqual(listed.body, [second.body.apiKey, made.body.apiKey], 'newest first')
  assert.ok(!listed.text.includes(made.body.key))
  assert.deepEqual((await api.call('GET /api/auth/api-keys', { as: bo.token })).body, [])
  const stored = JSON.stringify(await api.sql('select * from svc.api_keys'))
  assert.ok(!stored.includes(made.body.key.slice(12)), 'only a hash is stored')
  assert.ok(!JSON.stringify(api.observations).includes(made.body.key.slice(12)), 'and nothing is logged')
})

test('wrong wishes are refused with the reason', async () => {
  await refused(create(ana.token, {}), 400, 'name is required')
  await refused(create(ana.token, { name: ' ' }), 400, 'name is required')
  await refused(
    create(ana.token, { name: 'x', scope: 'admin' }),
    400,
    'invalid scope: must be *, readonly, or readwrite',
  )
  assert.equal((await create(ana.token, { name: 'x', scope: 'readonly storage:write' })).status, 400)
  await refused(
    create(ana.token, { name: 'x', appId: '00000000-0000-0000-0000-000000000000' }),
    400,
    'appId is not allowed',
  )
  for (const wrong of [1, true, {}, ['x']]) {
    assert.equal((await create(ana.token, { name: wrong })).status, 400)
    assert.equal((await create(ana.token, { name: 'x', scope: wrong })).status, 400)
    assert.equal((await create(ana.token, { name: 'x', allowedTables: [wrong] })).status, 400)
  }
  for (const wrong of [1, 'notes', {}]) {
    assert.equal((await create(ana.token, { name: 'x', allowedTables: wrong })).status, 400)
    assert.equal((await create(ana.token, wrong)).status, 400)
  }
  const mass = await create(ana.token, {
    name: 'x',
    userId: bo.user.id,
    id: bo.user.id,
    expiresAt: '2000-01-01T00:00:00Z',
    revokedAt: 'x',
  })
  assert.deepEqual([mass.status, mass.body.apiKey.userId, mass.body.apiKey.expiresAt], [201, ana.user.id, null])
  await refused(
    api.call('POST /api/auth/api-keys', { json: { name: 'x' } }),
    401,
    'missing or invalid authorization header',
  )
  await refused(create('admin', { name: 'x' }), 401, 'not authenticated')
})

test('a key acts as its owner, and only where keys are accepted', async () => {
  const { body } = await create(ana.token, { name: 'worker' })
  const written = await api.call('POST /api/collections/notes', { as: body.key, json: { body: 'by key' } })
  assert.deepEqual([written.status, written.body.owner], [201, ana.user.id])
  assert.equal((await api.call('GET /api/collections/notes', { as: body.key })).body.totalItems, 1)
  assert.equal((await api.call('GET /api/collections/notes', { as: bo.token })).body.totalItems, 0)
  assert.equal((await api.call('GET /api/auth/me', { as: body.key })).body.id, ana.user.id)
  await refused(create(body.key, { name: 'child' }), 403, 'API keys cannot create API keys')
  await refused(api.call('GET /api/auth/api-keys', { as: body.key }), 403, 'API keys cannot be used here')
  await refused(
    api.call(`DELETE /api/auth/api-keys/${body.apiKey.id}`, { as: body.key }),
    403,
    'API keys cannot be used here',
  )
  await refused(api.call('GET /api/admin/api-keys', { as: body.key }), 401, 'admin authentication required')
  await eventually(async () => {
    const [row] = await api.sql('select last_used_at from svc.api_keys where id = $1', [body.apiKey.id])
    assert.ok(row.last_used_at)
  })
})

test('a readonly key writes nothing anywhere', async () => {
  const { body } = await create(ana.token, { name: 'ro', scope: 'readonly' })
  const as = body.key
  assert.equal((await api.call('GET /api/collections/notes', { as })).status, 200)
  const message = 'api key scope does not permit write operations'
  await refused(api.call('POST /api/collections/notes', { as, json: { body: 'x' } }), 403, message)
  await refused(api.call('PATCH /api/collections/notes/1', { as, json: { body: 'x' } }), 403, message)
  await refused(api.call('DELETE /api/collections/notes/1', { as }), 403, message)
  await refused(
    api.call('POST /api/collections/notes/batch', {
      as,
      json: { operations: [{ method: 'create', body: { body: 'x' } }] },
    }),
    403,
    message,
  )
  await refused(create(as, { name: 'child' }), 403, 'API keys cannot create API keys')
  // Default deny: whatever else the server offers to users with a method that writes, a readonly key is not let in.
  for (const { method, path, auth, access } of api.app.routes) {
    if (method === 'GET' || auth === 'admin' || auth === 'none' || auth === 'mfa' || access === 'read') continue
    const url = path.replace(/\{[^}]+\}/g, '1')
    const { status } = await api.call(`${method} ${url}` as 'POST /', { as, ...(method !== 'DELETE' && { json: {} }) })
    assert.ok(status === 403 || status === 404, `${method} ${path} answered ${status}`)
  }
  assert.deepEqual(await api.sql(`select from notes where body = 'x'`), [])
})

test('a key for some tables sees no other', async () => {
  const { body } = await create(ana.token, { name: 'one table', allowedTables: ['notes'] })
  const as = body.key
  await api.sql(`insert into tasks (note_id, title) select id, 't' from notes limit 1`)
  assert.equal((await api.call('GET /api/collections/notes', { as })).status, 200)
  await refused(api.call('GET /api/collections/tasks', { as }), 403, 'api key does not have access to table: tasks')
  await refused(
    api.call('POST /api/collections/tasks', { as, json: { title: 'x' } }),
    403,
    'api key does not have access to table: tasks',
  )
  const expanded = await api.call('GET /api/collections/notes?expand=tasks', { as })
  assert.ok(expanded.status >= 400 || !expanded.text.includes('"title"'))
})

test('a revoked key is refused at once here and within a second elsewhere', async () => {
  const { body } = await create(ana.token, { name: 'short' })
  const use = (server: typeof api) => server.call('GET /api/collections/notes', { as: body.key })
  assert.deepEqual([(await use(api)).status, (await use(other)).status], [200, 200])
  const path = `/api/auth/api-keys/${body.apiKey.id}` as const
  await refused(api.call(`DELETE ${path}`, { as: bo.token }), 404, 'api key not found')
  assert.equal((await api.call(`DELETE ${path}`, { as: ana.token })).status, 204)
  await refused(use(api), 401, 'invalid or expired token')
  await eventually(async () => refused(use(other), 401, 'invalid or expired token'))
  await refused(api.call(`DELETE ${path}`, { as: ana.token }), 404, 'api key not found')
  await refused(api.call('DELETE /api/auth/api-keys/nope', { as: ana.token }), 400, 'invalid api key id format')
  const listed = (await api.call('GET /api/auth/api-keys', { as: ana.token })).body
  assert.ok(listed.find(({ id }: { id: string }) => id === body.apiKey.id).revokedAt)
})

test('of many revocations of one key exactly one succeeds', async () => {
  const { body } = await create(ana.token, { name: 'race' })
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      (n % 2 ? api : other).call(`DELETE /api/auth/api-keys/${body.apiKey.id}`, { as: ana.token }),
    ),
  )
  assert.deepEqual(answers.map(({ status }) => status).sort(), [204, ...Array(19).fill(404)])
})

test('an administrator lists, makes and revokes keys of everybody', async () => {
  const owner = await api.call('POST /api/admin/apps', { as: 'admin', json: { name: 'App', ownerUserId: ana.user.id } })
  const made = await adminCreate({ userId: bo.user.id, name: 'for bo', scope: 'readwrite', appId: owner.body.id })
  assert.deepEqual([made.status, made.body.apiKey.userId, made.body.apiKey.appId], [201, bo.user.id, owner.body.id])
  assert.equal((await adminCreate({ userId: bo.user.id, name: 'plain' })).body.apiKey.appId, null)

  const page = await api.call('GET /api/admin/api-keys?perPage=1&page=2', { as: 'admin' })
  assert.deepEqual([page.body.page, page.body.perPage, page.body.items[0].name], [2, 1, 'for bo'])
  assert.equal(page.body.totalPages, page.body.totalItems)
  assert.equal((await api.call('GET /api/admin/api-keys?perPage=1000', { as: 'admin' })).body.perPage, 100)

  const zero = '00000000-0000-0000-0000-000000000000'
  await refused(adminCreate({ name: 'x' }), 400, 'userId is required')
  await refused(adminCreate({ userId: 'x', name: 'x' }), 400, 'invalid userId format')
  await refused(adminCreate({ userId: zero, name: 'x' }), 400, 'user not found')
  await refused(adminCreate({ userId: bo.user.id }), 400, 'name is required')
  await refused(adminCreate({ userId: bo.user.id, name: 'x', appId: 'x' }), 400, 'invalid appId format')
  await refused(adminCreate({ userId: bo.user.id, name: 'x', appId: zero }), 400, 'app not found')
  await refused(
    adminCreate({ userId: bo.user.id, name: 'x', scope: 'all' }),
    400,
    'invalid scope: must be *, readonly, or readwrite',
  )
  for (const wrong of [1, true, {}, ['x']]) {
    assert.equal((await adminCreate({ userId: wrong, name: 'x' })).status, 400)
    assert.equal((await adminCreate({ userId: bo.user.id, name: 'x', appId: wrong })).status, 400)
  }

  assert.equal((await api.call(`DELETE /api/admin/api-keys/${made.body.apiKey.id}`, { as: 'admin' })).status, 204)
  await refused(
    api.call(`DELETE /api/admin/api-keys/${made.body.apiKey.id}`, { as: 'admin' }),
    404,
    'api key not found',
  )
  await refused(api.call('DELETE /api/admin/api-keys/1', { as: 'admin' }), 400, 'invalid api key id format')
  await refused(api.call('GET /api/admin/api-keys', { as: bo.token }), 401, 'admin authentication required')
  const audit = await api.call('GET /api/admin/audit?action=api_key.create', { as: 'admin' })
  assert.ok(audit.body.items.some(({ target }: { target: string }) => target === made.body.apiKey.id))
  assert.ok(!audit.text.includes(made.body.key.slice(12)))
})

test('deleting a user ends their keys', async () => {
  const cy = await api.signUp('cy@x.test')
  const { body } = await create(cy.token, { name: 'x' })
  assert.equal((await api.call('GET /api/collections/notes', { as: body.key })).status, 200)
  assert.equal((await api.call(`DELETE /api/admin/users/${cy.user.id}`, { as: 'admin' })).status, 204)
  await eventually(async () =>
    refused(other.call('GET /api/collections/notes', { as: body.key }), 401, 'invalid or expired token'),
  )
  await eventually(async () =>
    refused(api.call('GET /api/collections/notes', { as: body.key }), 401, 'invalid or expired token'),
  )
})
