import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer, type TestServer } from '../../../test/kit/kit.ts'

const PASSWORD = 'correct horse battery staple'
const api = await startServer()

const loginAt = (server: TestServer, password: unknown) => server.call('POST /api/admin/auth', { json: { password } })
const login = (password: unknown) => loginAt(api, password)
const admits = async (server: TestServer, as: string) => (await server.call('GET /api/admin/stats', { as })).status

test('the right password buys a token of 64 hex digits that opens admin routes', async () => {
  assert.deepEqual((await api.call('GET /api/admin/status')).body, { auth: true })
  const { status, body, headers } = await login(PASSWORD)
  assert.equal(status, 200)
  assert.match(body.token, /^[0-9a-f]{64}$/)
  assert.equal(headers.get('cache-control'), 'no-store')
  assert.equal(await admits(api, body.token), 200)
  assert.equal(
    await admits(
      api,
      body.token.replace(/^./, (c: string) => (c === '0' ? '1' : '0')),
    ),
    401,
  )

  const rows = await api.sql('select * from svc.admin_tokens')
  assert.ok(!JSON.stringify(rows).includes(body.token), 'the token is stored hashed only')
})

test('wrong passwords and wrong bodies are refused', async () => {
  const wrong = await login('wrong')
  assert.equal(wrong.status, 401)
  assert.deepEqual(wrong.body, { code: 401, error: 'invalid_credentials', message: 'invalid password' })
  assert.equal((await login('x'.repeat(5000))).status, 401)
  for (const password of [undefined, null, '']) {
    assert.deepEqual((await login(password)).body, {
      code: 400,
      error: 'validation_failed',
      message: 'password is required',
    })
  }
  for (const password of [1, true, [], {}, [PASSWORD]]) {
    assert.deepEqual((await login(password)).body, {
      code: 400,
      error: 'validation_failed',
      message: 'password must be a string',
    })
  }
  assert.equal((await api.call('POST /api/admin/auth', { json: [PASSWORD] })).status, 400)
})

test('many wrong passwords end in 429', async () => {
  const limited = await startServer({ on: api, config: { 'rate_limit.admin_login': '5/hour' } })
  const answers = await Promise.all(Array.from({ length: 12 }, () => loginAt(limited, 'wrong')))
  const statuses = answers.map(({ status }) => status).sort()
  assert.deepEqual(statuses, [...Array(5).fill(401), ...Array(7).fill(429)])
})

test('a token is good on every node', async () => {
  const { token } = (await login(PASSWORD)).body
  const two = await startServer({ on: api })
  assert.equal(await admits(two, token), 200)
  await two.stop()
})

test('the same password at the next start keeps the tokens', async () => {
  const { token } = (await login(PASSWORD)).body
  const later = await startServer({ on: api })
  assert.equal(await admits(later, token), 200)
})

test('of several servers that start on an empty database one generates the password', async () => {
  const first = await startServer({ config: { 'admin.enabled': false } })
  const servers = await Promise.all([1, 2, 3].map(() => startServer({ on: first, config: { 'admin.password': '' } })))
  const generated = servers.map(({ app }) => app.generatedPassword).filter((password) => password !== undefined)
  assert.equal(generated.length, 1)
  assert.match(generated[0] ?? '', /^[0-9a-f]{32}$/)
  for (const server of servers) assert.equal((await loginAt(server, generated[0])).status, 200)
  const later = await startServer({ on: first, config: { 'admin.password': '' } })
  assert.equal(later.app.generatedPassword, undefined)
  const stored = JSON.stringify(await first.sql(`select * from svc.settings`))
  assert.ok(!stored.includes(generated[0] ?? '?'), 'only the hash is stored')
})

test('a token expires', async () => {
  const { token } = (await login(PASSWORD)).body
  await api.sql(`update svc.admin_tokens set expires_at = now() - interval '1 second'`)
  assert.equal(await admits(api, token), 401)
})

test('without admin access there is no login and no admin route', async () => {
  const { token } = (await login(PASSWORD)).body
  const closed = await startServer({ on: api, config: { 'admin.enabled': false } })
  assert.deepEqual((await closed.call('GET /api/admin/status')).body, { auth: false })
  const answer = await loginAt(closed, PASSWORD)
  assert.equal(answer.status, 404)
  assert.deepEqual(answer.body, { code: 404, error: 'feature_disabled', message: 'admin auth not configured' })
  assert.equal(await admits(closed, token), 401)
})

test('a new password ends every token, also on the nodes that already know it', async () => {
  const { token } = (await login(PASSWORD)).body
  assert.equal(await admits(api, token), 200)
  const two = await startServer({ on: api, config: { 'admin.password': 'another password' } })
  assert.equal(await admits(two, token), 401)
  await eventually(async () => assert.equal(await admits(api, token), 401))
  assert.equal((await login(PASSWORD)).status, 401)
  assert.equal((await login('another password')).status, 200)
})
