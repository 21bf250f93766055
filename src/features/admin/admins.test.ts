import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { eventually, spawnServer, startServer, type TestServer } from '../../../test/kit/kit.ts'
import { ADMIN_ROLES, type AdminRole } from '../../core/identity.ts'

const PASSWORD = 'a password of their own'
const api = await startServer()

const add = async (name: string, role: AdminRole, on: TestServer = api) => {
  const json = { email: `${name}@x.test`, name, password: PASSWORD, role }
  const { status, body, text } = await on.call('POST /api/admin/admins', { as: 'admin', json })
  assert.equal(status, 201, text)
  return body as { id: string; email: string }
}
const login = (email: string, password = PASSWORD, on: TestServer = api) =>
  on.call('POST /api/admin/auth', { json: { email, password } })
const tokenOf = async (name: string, on: TestServer = api): Promise<string> =>
  (await login(`${name}@x.test`, PASSWORD, on)).body.token
const remove = (id: string, as = 'admin') => api.call(`DELETE /api/admin/admins/${id}`, { as })

const people = {
  owner: await add('olga', 'owner'),
  operator: await add('otto', 'operator'),
  viewer: await add('vera', 'viewer'),
}
const tokens = { owner: await tokenOf('olga'), operator: await tokenOf('otto'), viewer: await tokenOf('vera') }
const rank = (role: AdminRole) => ADMIN_ROLES.indexOf(role)

test('every admin route admits its least role and those above, and refuses those below', async () => {
  const routes = api.app.routes.filter(({ auth }) => auth === 'admin')
  assert.ok(routes.length > 100)
  for (const { method, path, leastRole = 'owner' } of routes) {
    const target = `${api.url}${path.replace(/\{\w+(?:\.\.\.)?\}/g, 'x')}`
    for (const role of ADMIN_ROLES) {
      const headers = { authorization: `Bearer ${tokens[role]}`, 'content-type': 'application/json' }
      // Bodies that no route takes, so that nothing happens where the caller is admitted.
      const answer = await fetch(target, { method, headers, ...(method !== 'GET' && { body: '[]' }) })
      const { error } = (answer.status >= 400 ? await answer.json() : {}) as { error?: string }
      const line = `${method} ${path} as ${role}: ${answer.status} ${error}`
      assert.notEqual(answer.status, 401, line)
      assert.equal(error === 'insufficient_role', rank(role) < rank(leastRole), line)
    }
  }
})

test('what only the owner may do is this list', () => {
  const owners = api.app.routes.filter(({ auth, leastRole = 'owner' }) => auth === 'admin' && leastRole === 'owner')
  assert.deepEqual(owners.map(({ method, path }) => `${method} ${path}`).toSorted(), [
    'DELETE /api/admin/admins/{id}',
    'DELETE /api/admin/backups/{id}',
    'GET /api/admin/admins',
    'GET /api/admin/backups/{id}/download',
    'GET /api/admin/users/{id}/export',
    'PATCH /api/admin/admins/{id}',
    'POST /api/admin/admins',
    'POST /api/admin/mcp',
    'POST /api/admin/oauth/clients/{clientId}/rotate-secret',
    'POST /api/admin/rls/compare',
    'POST /api/admin/secrets/rotate',
    'POST /api/admin/secrets/signing-key',
  ])
})

test('a viewer changes nothing but the own second factor and what the viewer saved; SQL and functions of viewers are read-only', () => {
  const writes = api.app.routes.filter(
    ({ method, leastRole, enrols, access }) =>
      method !== 'GET' && leastRole === 'viewer' && !enrols && access !== 'read',
  )
  assert.deepEqual(
    writes
      .map(({ method, path }) => `${method} ${path}`)
      .filter((line) => !/ \/api\/admin\/dashboard\/(queries|views)\b/.test(line)),
    ['POST /api/admin/sql', 'POST /api/rpc/{function}'],
  )
})

test('OpenAPI says the least role of each admin route', async () => {
  const { paths } = (await api.call('GET /api/openapi.json', { as: tokens.viewer })).body
  assert.equal(paths['/api/admin/sql'].post['x-least-role'], 'viewer')
  assert.equal(paths['/api/admin/admins'].post['x-least-role'], 'owner')
  assert.equal(paths['/api/admin/users'].get['x-least-role'], 'viewer')
  assert.equal(paths['/api/admin/users'].post['x-least-role'], 'operator')
  assert.equal(paths['/api/auth/me'].get['x-least-role'], undefined)
})

test('wrong names and wrong passwords are the same 401', async () => {
  const refused = { code: 401, error: 'invalid_credentials', message: 'invalid email or password' }
  for (const answer of [
    await login('olga@x.test', 'wrong'),
    await login('nemo@x.test'),
    await login('olga@x.test', 'correct horse battery staple'),
    await login('olga@x.test', 'x'.repeat(5000)),
  ]) {
    assert.deepEqual(answer.body, refused)
  }
  assert.equal((await login(' Olga@X.test ')).status, 200)
})

test('names, addresses, roles and passwords are checked', async () => {
  const make = async (json: object) => (await api.call('POST /api/admin/admins', { as: 'admin', json })).body.error
  const good = { email: 'new@x.test', name: 'new', password: PASSWORD, role: 'viewer' }
  assert.equal(await make({ ...good, role: 'boss' }), 'validation_failed')
  assert.equal(await make({ ...good, password: 'x' }), 'weak_password')
  assert.equal(await make({ ...good, email: 'nothing' }), 'invalid_email')
  assert.equal(await make({ ...good, name: 'a\nb' }), 'validation_failed')
  assert.equal(await make({ ...good, email: 'OLGA@x.test' }), 'email_taken')
  assert.equal(await make({ ...good, role: undefined }), 'validation_failed')
  const { text, body } = await api.call('GET /api/admin/admins', { as: tokens.owner })
  assert.deepEqual(
    body.items.map(({ name, role }: { name: string; role: string }) => [name, role]),
    [
      ['olga', 'owner'],
      ['otto', 'operator'],
      ['vera', 'viewer'],
    ],
  )
  assert.doesNotMatch(text, /hash|argon/)
})

test('the audit names the administrator, also for changes of data', async () => {
  await api.sql(
    'create table public.papers (id int primary key); create function public.one() returns int language sql as $$select 1$$',
  )
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/papers', { as: tokens.owner })).status, 200),
  )
  const { status } = await api.call('POST /api/admin/apps', {
    as: tokens.operator,
    json: { name: 'theirs', ownerUserId: (await api.signUp('ana@x.test')).user.id },
  })
  assert.equal(status, 201)
  await api.call('POST /api/admin/storage/buckets', { as: 'admin', json: { name: 'shared' } })
  const { items } = (await api.call('GET /api/admin/audit', { as: tokens.viewer })).body
  const by = (action: string) => items.find((item: { action: string }) => item.action === action)
  assert.equal(by('app.create').admin, 'otto@x.test')
  assert.equal(by('bucket.create').admin, undefined)

  const audited = await startServer({ on: api, config: { 'audit.tables': ['papers'] } })
  assert.equal((await audited.call('POST /api/collections/papers', { as: tokens.owner, json: { id: 7 } })).status, 201)
  await eventually(async () => {
    const [row] = await api.sql(`select admin from svc.audit_log where action = 'record.create'`)
    assert.equal(row?.admin, 'olga@x.test')
  })
  await audited.stop()
})

test('jobs of an operator call functions as the roles of requests alone', async () => {
  const queue = (as: string, role: unknown) =>
    api.call('POST /api/admin/jobs', { as, json: { type: 'sql', payload: { function: 'one', role } } })
  for (const role of ['postgres', 'none', 'SVC_ANON', 'svc_anon ', undefined, ['svc_anon']]) {
    assert.equal((await queue(tokens.operator, role)).body.error, 'insufficient_role', String(role))
  }
  assert.equal((await queue(tokens.operator, 'svc_anon')).status, 201)
  assert.equal((await queue(tokens.owner, 'postgres')).status, 201)

  const schedule = {
    name: 'theirs',
    jobType: 'sql',
    cronExpr: '0 0 1 1 *',
    payload: { function: 'one', role: 'postgres' },
  }
  const make = (as: string, json: object) => api.call('POST /api/admin/schedules', { as, json })
  assert.equal((await make(tokens.operator, schedule)).body.error, 'insufficient_role')
  const { id } = (await make(tokens.owner, schedule)).body
  const change = (payload: object) =>
    api.call(`PUT /api/admin/schedules/${id}`, { as: tokens.operator, json: { payload } })
  assert.equal((await change({ function: 'two', role: 'postgres' })).body.error, 'insufficient_role')
  assert.equal((await change({ function: 'one', role: 'svc_anon' })).status, 200)
})

test('claims of anybody are explained to the owner alone', async () => {
  const ask = (as: string) =>
    api.call('POST /api/admin/rls/explain', {
      as,
      json: { table: 'papers', operation: 'select', claims: { sub: people.owner.id } },
    })
  assert.equal((await ask(tokens.operator)).body.error, 'insufficient_role')
  assert.notEqual((await ask(tokens.owner)).body.error, 'insufficient_role')
})

test('the last owner cannot go, nor become less, even when two go at once', async () => {
  const refused = { code: 409, error: 'wrong_state', message: 'the last owner cannot go' }
  assert.deepEqual((await remove(people.owner.id)).body, refused)
  const demote = await api.call(`PATCH /api/admin/admins/${people.owner.id}`, { as: 'admin', json: { role: 'viewer' } })
  assert.deepEqual(demote.body, refused)
  const second = await add('oskar', 'owner')
  const answers = await Promise.all([remove(people.owner.id), remove(second.id)])
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [204, 409])
  const { items } = (await api.call('GET /api/admin/admins', { as: 'admin' })).body
  assert.equal(items.filter(({ role }: { role: string }) => role === 'owner').length, 1)
})

test('a removed administrator, another role and another password end the tokens on every node within a second', async () => {
  const two = await spawnServer({ on: api })
  const ends = [
    (id: string) => remove(id),
    (id: string) => api.call(`PATCH /api/admin/admins/${id}`, { as: 'admin', json: { role: 'viewer' } }),
    (id: string) => api.call(`PATCH /api/admin/admins/${id}`, { as: 'admin', json: { password: `new ${PASSWORD}` } }),
  ]
  for (const [i, end] of ends.entries()) {
    const { id } = await add(`gone${i}`, 'operator')
    const token = await tokenOf(`gone${i}`)
    const status = async (on: TestServer) => (await on.call('GET /api/admin/stats', { as: token })).status
    assert.deepEqual([await status(api), await status(two)], [200, 200])
    assert.ok((await end(id)).status < 300)
    assert.equal(await status(api), 401)
    await eventually(async () => assert.equal(await status(two), 401), { seconds: 1 })
  }
  assert.equal((await login('gone0@x.test')).status, 401)
  assert.equal((await login('gone2@x.test')).status, 401)
  assert.equal((await remove(randomUUID())).status, 404)
  await two.stop()
})

test('without the shared password its tokens end; those of names and of the machine stay', async () => {
  const shared = await api.adminToken()
  const closed = await startServer({ on: api, config: { 'admin.shared_password': false } })
  const status = async (as: string | undefined) => (await closed.call('GET /api/admin/stats', { as: as ?? '' })).status
  assert.equal(await status(shared), 401)
  assert.equal(
    (await closed.call('POST /api/admin/auth', { json: { password: 'correct horse battery staple' } })).status,
    401,
  )
  assert.equal(await status(await tokenOf('vera', closed)), 200)
  assert.equal(await status(await closed.app.issueAdminToken()), 200)
  await closed.stop()
})
