import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer, type TestServer } from '../../../test/kit/kit.ts'

const PASSWORD = 'correct horse battery staple'
const login = (api: TestServer, password: unknown) => api.call('POST /api/admin/auth', { json: { password } })
const admits = async (api: TestServer, as: string) => (await api.call('GET /api/admin/stats', { as })).status

test('the right password buys a token of 64 hex digits that opens admin routes', async () => {
  const api = await startServer()
  assert.deepEqual((await api.call('GET /api/admin/status')).body, { auth: true })
  const { status, body, headers } = await login(api, PASSWORD)
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
  const api = await startServer()
  const wrong = await login(api, 'wrong')
  assert.equal(wrong.status, 401)
  assert.deepEqual(wrong.body, { code: 401, message: 'invalid password' })
  assert.equal((await login(api, 'x'.repeat(5000))).status, 401)
  for (const password of [undefined, null, '']) {
    assert.deepEqual((await login(api, password)).body, { code: 400, message: 'password is required' })
  }
  for (const password of [1, true, [], {}, [PASSWORD]]) {
    assert.deepEqual((await login(api, password)).body, { code: 400, message: 'password must be a string' })
  }
  assert.equal((await api.call('POST /api/admin/auth', { json: [PASSWORD] })).status, 400)
})

test('many wrong passwords end in 429', async () => {
  const api = await startServer({ config: { 'rate_limit.admin_login': '5/hour' } })
  const answers = await Promise.all(Array.from({ length: 12 }, () => login(api, 'wrong')))
  const statuses = answers.map(({ status }) => status).sort()
  assert.deepEqual(statuses, [...Array(5).fill(401), ...Array(7).fill(429)])
})

test('a token is good on every node and after a restart', async () => {
  const one = await startServer()
  const { token } = (await login(one, PASSWORD)).body
  const two = await startServer({ on: one })
  assert.equal(await admits(two, token), 200)
  await two.stop()
  const again = await startServer({ on: one })
  assert.equal(await admits(again, token), 200)
})

test('a new password ends every token, also on the nodes that already know it', async () => {
  const one = await startServer()
  const { token } = (await login(one, PASSWORD)).body
  assert.equal(await admits(one, token), 200)
  const two = await startServer({ on: one, config: { 'admin.password': 'another password' } })
  assert.equal(await admits(two, token), 401)
  await eventually(async () => assert.equal(await admits(one, token), 401))
  assert.equal((await login(one, PASSWORD)).status, 401)
  assert.equal((await login(one, 'another password')).status, 200)
})

test('the same password at the next start keeps the tokens', async () => {
  const one = await startServer()
  const { token } = (await login(one, PASSWORD)).body
  await one.stop()
  const two = await startServer({ on: one })
  assert.equal(await admits(two, token), 200)
})

test('of several servers that start on an empty database one generates the password', async () => {
  const first = await startServer({ config: { 'admin.enabled': false } })
  const servers = await Promise.all([1, 2, 3].map(() => startServer({ on: first, config: { 'admin.password': '' } })))
  const generated = servers.map(({ app }) => app.generatedPassword).filter((password) => password !== undefined)
  assert.equal(generated.length, 1)
  assert.match(generated[0] ?? '', /^[0-9a-f]{32}$/)
  for (const server of servers) assert.equal((await login(server, generated[0])).status, 200)
  const later = await startServer({ on: first, config: { 'admin.password': '' } })
  assert.equal(later.app.generatedPassword, undefined)
  const stored = JSON.stringify(await first.sql(`select * from svc.settings`))
  assert.ok(!stored.includes(generated[0] ?? '?'), 'only the hash is stored')
})

test('a token expires', async () => {
  const api = await startServer()
  const { token } = (await login(api, PASSWORD)).body
  await api.sql(`update svc.admin_tokens set expires_at = now() - interval '1 second'`)
  assert.equal(await admits(api, token), 401)
})

test('without admin access there is no login and no admin route', async () => {
  const on = await startServer()
  const { token } = (await login(on, PASSWORD)).body
  const api = await startServer({ on, config: { 'admin.enabled': false } })
  assert.deepEqual((await api.call('GET /api/admin/status')).body, { auth: false })
  const answer = await login(api, PASSWORD)
  assert.equal(answer.status, 404)
  assert.deepEqual(answer.body, { code: 404, message: 'admin auth not configured' })
  assert.equal(await admits(api, token), 401)
})
