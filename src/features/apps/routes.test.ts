import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
const other = await startServer({ on: api })
await api.sql('create table notes (id serial primary key, body text)')
for (const server of [api, other]) {
  await eventually(async () => assert.equal((await server.call('GET /api/collections/notes')).status, 200))
}
const ana = await api.signUp('ana@x.test')

const refused = async (answer: Promise<Answer>, code: number, message: string) => {
  const { status, body } = await answer
  assert.deepEqual([status, body.code, body.message], [code, code, message])
}
const create = (json: unknown) => api.call('POST /api/admin/apps', { as: 'admin', json })
const update = (id: string, json: unknown) => api.call(`PUT /api/admin/apps/${id}`, { as: 'admin', json })
const newApp = async (name: string): Promise<string> => (await create({ name, ownerUserId: ana.user.id })).body.id
const keyFor = async (appId: string) => {
  const { body } = await api.call('POST /api/admin/api-keys', {
    as: 'admin',
    json: { userId: ana.user.id, name: 'k', appId },
  })
  return body as { key: string; apiKey: { id: string } }
}

test('an app is created, read, replaced, listed and deleted', async () => {
  const made = await create({ name: 'Shop', description: 'sells', ownerUserId: ana.user.id })
  assert.equal(made.status, 201)
  const { id, createdAt, updatedAt, ...rest } = made.body
  assert.match(createdAt, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  assert.deepEqual(rest, {
    name: 'Shop',
    description: 'sells',
    ownerUserId: ana.user.id,
    rateLimitRps: 0,
    rateLimitWindowSeconds: 0,
  })
  assert.deepEqual((await api.call(`GET /api/admin/apps/${id}`, { as: 'admin' })).body, made.body)

  const replaced = await update(id, {
    name: 'Shop 2',
    rateLimitRps: 5,
    ownerUserId: '00000000-0000-0000-0000-000000000000',
  })
  assert.equal(replaced.status, 200)
  assert.deepEqual(replaced.body, {
    ...made.body,
    name: 'Shop 2',
    description: '',
    rateLimitRps: 5,
    updatedAt: replaced.body.updatedAt,
  })
  assert.ok(replaced.body.updatedAt > updatedAt)

  await newApp('Later')
  const list = await api.call('GET /api/admin/apps?perPage=1', { as: 'admin' })
  assert.deepEqual(
    { ...list.body, items: list.body.items.map(({ name }: { name: string }) => name) },
    { items: ['Later'], page: 1, perPage: 1, totalItems: 2, totalPages: 2 },
  )
  assert.equal((await api.call(`DELETE /api/admin/apps/${id}`, { as: 'admin' })).status, 204)
  for (const line of [`GET /api/admin/apps/${id}`, `DELETE /api/admin/apps/${id}`] as const) {
    await refused(api.call(line, { as: 'admin' }), 404, 'app not found')
  }
  await refused(update(id, { name: 'x' }), 404, 'app not found')
  await refused(api.call('GET /api/admin/apps/x', { as: 'admin' }), 400, 'invalid app id format')
})

test('wrong fields are refused with the reason', async () => {
  const owner = ana.user.id
  await refused(create({ ownerUserId: owner }), 400, 'name is required')
  await refused(create({ name: 'x' }), 400, 'ownerUserId is required')
  await refused(create({ name: 'x', ownerUserId: 'x' }), 400, 'invalid ownerUserId format')
  await refused(create({ name: 'x', ownerUserId: '00000000-0000-0000-0000-000000000000' }), 400, 'owner user not found')
  const id = await newApp('Limits')
  await refused(update(id, { name: 'x', rateLimitRps: -1 }), 400, 'rate limit values must be non-negative')
  await refused(update(id, { name: 'x', rateLimitWindowSeconds: -1 }), 400, 'rate limit values must be non-negative')
  for (const wrong of ['5', 1e9, 1.5, true, [], {}, 1e300]) {
    assert.equal((await update(id, { name: 'x', rateLimitRps: wrong })).status, 400)
    assert.equal((await update(id, { name: 'x', rateLimitWindowSeconds: wrong })).status, 400)
  }
  for (const wrong of [1, true, {}, ['x']]) {
    assert.equal((await create({ name: wrong, ownerUserId: owner })).status, 400)
    assert.equal((await create({ name: 'x', ownerUserId: wrong })).status, 400)
    assert.equal((await create({ name: 'x', ownerUserId: owner, description: wrong })).status, 400)
    assert.equal((await create(wrong)).status, 400)
  }
  await refused(api.call('GET /api/admin/apps', { as: ana.token }), 401, 'admin authentication required')
})

test('an app’s limit holds over two servers together, and every answer tells how it stands', async () => {
  const { body } = await create({
    name: 'Limited',
    ownerUserId: ana.user.id,
    rateLimitRps: 5,
    rateLimitWindowSeconds: 300,
  })
  const { key } = await keyFor(body.id)
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, n) => (n % 2 ? api : other).call('GET /api/collections/notes', { as: key })),
  )
  const passed = answers.filter(({ status }) => status === 200)
  assert.equal(passed.length, 5)
  assert.deepEqual(passed.map(({ headers }) => headers.get('x-app-ratelimit-remaining')).sort(), [
    '0',
    '1',
    '2',
    '3',
    '4',
  ])
  const over = answers.find(({ status }) => status === 429)
  assert.deepEqual(over?.body, { code: 429, error: 'app_rate_limited', message: 'app rate limit exceeded' })
  assert.ok(Number(over?.headers.get('retry-after')) >= 1)
  assert.equal(over?.headers.get('x-app-ratelimit-limit'), '5')
  assert.equal(over?.headers.get('x-app-ratelimit-remaining'), '0')
  assert.ok(Number(over?.headers.get('x-app-ratelimit-reset')) > Date.now() / 1000)
})

test('a changed limit holds on every server within a second', async () => {
  const id = await newApp('Changing')
  const { key } = await keyFor(id)
  const limit = async (server: typeof api) =>
    (await server.call('GET /api/auth/me', { as: key })).headers.get('x-app-ratelimit-limit')
  assert.deepEqual([await limit(api), await limit(other)], [null, null], 'no limit, no headers')
  await update(id, { name: 'Changing', rateLimitRps: 1000 })
  assert.equal(await limit(api), '1000')
  await eventually(async () => assert.equal(await limit(other), '1000'))
})

test('with an app its keys end, and stay listed without it', async () => {
  const id = await newApp('Doomed')
  const { key, apiKey } = await keyFor(id)
  assert.equal((await other.call('GET /api/collections/notes', { as: key })).status, 200)
  assert.equal((await api.call(`DELETE /api/admin/apps/${id}`, { as: 'admin' })).status, 204)
  for (const server of [api, other]) {
    await eventually(async () =>
      refused(server.call('GET /api/collections/notes', { as: key }), 401, 'invalid or expired token'),
    )
  }
  const { body } = await api.call('GET /api/auth/api-keys', { as: ana.token })
  const listed = body.find((one: { id: string }) => one.id === apiKey.id)
  assert.equal(listed.appId, null)
  assert.ok(listed.revokedAt)
})

test('keys made for an app while it is deleted never outlive it', async () => {
  const id = await newApp('Race')
  await Promise.all([
    ...Array.from({ length: 10 }, () =>
      api.call('POST /api/admin/api-keys', { as: 'admin', json: { userId: ana.user.id, name: 'race', appId: id } }),
    ),
    other.call(`DELETE /api/admin/apps/${id}`, { as: 'admin' }),
  ])
  assert.deepEqual(await api.sql(`select id from svc.api_keys where name = 'race' and revoked_at is null`), [])
})

test('an app outlives its owner', async () => {
  const bo = await api.signUp('bo@x.test')
  const { body } = await create({ name: 'Orphan', ownerUserId: bo.user.id })
  await api.call(`DELETE /api/admin/users/${bo.user.id}`, { as: 'admin' })
  assert.equal((await api.call(`GET /api/admin/apps/${body.id}`, { as: 'admin' })).body.ownerUserId, null)
})
