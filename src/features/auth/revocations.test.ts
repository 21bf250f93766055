import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { eventually, spawnServer, startServer, type TestServer } from '../../../test/kit/kit.ts'

const config = { 'auth.anonymous_auth_enabled': true }
const api = await startServer({ config })
const other = await spawnServer({ config, on: api })
const password = 'long enough password'

const me = (token: string, server: TestServer = api) => server.call('GET /api/auth/me', { as: token })
const invalid = { code: 401, error: 'invalid_token', message: 'invalid or expired token' }
const dies = (token: string, server: TestServer) =>
  eventually(async () => assert.equal((await me(token, server)).status, 401))

test('a token known to two processes dies in both, whatever ended it', async () => {
  const endings: Record<string, (user: { id: string; token: string; refreshToken: string }) => Promise<unknown>> = {
    logout: ({ refreshToken }) => api.call('POST /api/auth/logout', { json: { refreshToken } }),
    'own deletion': ({ token }) => api.call('DELETE /api/auth/me', { as: token }),
    'deletion by an admin': ({ id }) => api.call(`DELETE /api/admin/users/${id}`, { as: 'admin' }),
    'another session': async ({ token, id }) => {
      const [session] = await api.sql('select id from svc.sessions where user_id = $1', [id])
      await api.call(`DELETE /api/auth/sessions/${session.id}`, { as: token })
    },
  }
  for (const [name, end] of Object.entries(endings)) {
    const { token, refreshToken, user } = await api.signUp(`${name.replaceAll(' ', '-')}@x.test`)
    assert.deepEqual([(await me(token)).status, (await me(token, other)).status], [200, 200], name)
    await end({ id: user.id, token, refreshToken })
    assert.deepEqual((await me(token)).body, invalid, name)
    await dies(token, other)
  }
})

test('a revocation that commits late is not missed', async () => {
  const { token, user } = await api.signUp('late@x.test')
  assert.equal((await me(token, other)).status, 200)
  await api.sql('begin')
  await api.sql('delete from svc.sessions where user_id = $1', [user.id])
  await api.sql(`insert into svc.revocations (kind, subject) values ('user', $1)`, [user.id])
  // Others commit meanwhile and move every reader past the open transaction's row.
  for (let i = 0; i < 5; i++) {
    const passing = await api.signUp(`passing${i}@x.test`)
    await api.call('POST /api/auth/logout', { json: { refreshToken: passing.refreshToken } })
    await dies(passing.token, other)
  }
  assert.equal((await me(token, other)).status, 200)
  await api.sql('commit')
  await dies(token, other)
})

test('secret rotation ends every user token on every server, and no other', async () => {
  const { token, refreshToken } = await api.signUp('rotate@x.test')
  const key = (await api.call('POST /api/auth/api-keys', { as: token, json: { name: 'stays' } })).body.key
  assert.equal((await me(token, other)).status, 200)
  const admin = await api.adminToken()

  const rotated = await api.call('POST /api/admin/secrets/rotate', { as: 'admin' })
  assert.deepEqual(
    [rotated.status, rotated.body],
    [200, { message: 'JWT secret rotated; all user tokens are invalid' }],
  )
  assert.equal((await me(token)).status, 401)
  await dies(token, other)
  for (const server of [api, other]) {
    const { status, body } = await server.call('POST /api/auth/refresh', { json: { refreshToken } })
    assert.deepEqual([status, body.message], [401, 'invalid or expired refresh token'])
  }
  assert.equal((await me(key, other)).status, 200)
  assert.equal((await api.call('GET /api/admin/users', { as: admin })).status, 200)
  const fresh = await other.call('POST /api/auth/login', { json: { email: 'rotate@x.test', password } })
  assert.equal((await me(fresh.body.token)).status, 200)
  for (const as of [undefined, fresh.body.token, key]) {
    const { status, body } = await api.call('POST /api/admin/secrets/rotate', as ? { as } : {})
    assert.deepEqual([status, body.message], [401, 'admin authentication required'])
  }
})

test('servers with one configured secret agree, and another secret means nothing here', async () => {
  const secret = { 'auth.jwt_secret': 'a'.repeat(64) }
  const first = await startServer({ config: secret })
  const second = await startServer({ config: secret, on: first })
  const { token } = await first.signUp('agree@x.test')
  assert.equal((await me(token, second)).status, 200)
  assert.equal((await me(token)).status, 401)
  const stranger = await startServer({ config: { 'auth.jwt_secret': 'b'.repeat(64) }, on: first })
  assert.equal((await me(token, stranger)).status, 401)
})

test('nothing that is not an access token passes as one', async () => {
  const { token, refreshToken, user } = await api.signUp('confusion@x.test')
  const [header = '', payload = '', signature = ''] = token.split('.')
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString())
  const [{ value: root }] = await api.sql(`select value from svc.settings where key = 'auth.root_secret'`)
  const signed = (head: object, body: object, key: string) => {
    const text = `${encode(head)}.${encode(body)}`
    return `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`
  }
  const forged = [
    `${encode({ alg: 'none', typ: 'JWT' })}.${payload}.`,
    `${encode({ alg: 'None', typ: 'JWT' })}.${payload}.`,
    `${encode({ alg: 'nOnE', typ: 'JWT' })}.${payload}.${signature}`,
    `${encode({ alg: 'HS256' })}.${payload}.${signature}`,
    `${header}.${payload}.`,
    `${header}.${payload}`,
    `${header}.${encode({ ...claims, sub: user.id, aal: 'aal2' })}.${signature}`,
    signed({ alg: 'HS256', typ: 'JWT' }, claims, root),
    signed({ alg: 'HS256', typ: 'JWT' }, claims, ''),
    refreshToken,
    'svc_at_0123456789',
    `svc_${'0'.repeat(48)}`,
    '0'.repeat(64),
    'x',
    user.id,
    `${'a'.repeat(17_000)}.b.c`,
    `${header}.${'A'.repeat(17_000)}.${signature}`,
    '..',
    '{}',
    "'or/**/1=1--",
  ]
  for (const bearer of forged) {
    const answer = await me(bearer)
    assert.deepEqual([answer.status, answer.body], [401, invalid], bearer.slice(0, 60))
    assert.equal(answer.headers.get('www-authenticate'), 'Bearer')
  }
  for (const authorization of ['Basic dTpw', 'Bearer', `Token ${token}`, `Bearer ${token} x`]) {
    const answer = await api.call('GET /api/auth/me', { headers: { authorization } })
    assert.deepEqual([answer.status, answer.body.message], [401, 'missing or invalid authorization header'])
  }
  assert.equal((await api.call('GET /api/auth/me')).body.message, 'missing or invalid authorization header')
  assert.equal((await api.call('GET /api/auth/me', { headers: { cookie: `token=${token}` } })).status, 401)
  const admin = await api.call('GET /api/auth/me', { as: 'admin' })
  assert.deepEqual([admin.status, admin.body.message], [401, 'not authenticated'])
  for (const line of [
    'GET /api/admin/users',
    `DELETE /api/admin/users/${user.id}`,
    'GET /api/admin/auth-settings',
  ] as const) {
    const asUser = await api.call(line, { as: token })
    assert.deepEqual([asUser.status, asUser.body.message], [401, 'admin authentication required'])
  }
  assert.equal((await me(token)).status, 200)
})

test('an API key reads its owner and does nothing else here', async () => {
  const { token, user } = await api.signUp('keyed@x.test')
  const key = (await api.call('POST /api/auth/api-keys', { as: token, json: { name: 'k' } })).body.key
  assert.equal((await me(key)).body.id, user.id)
  for (const line of [
    'DELETE /api/auth/me',
    'GET /api/auth/sessions',
    'DELETE /api/auth/sessions?all_except_current=true',
    'POST /api/auth/verify/resend',
    'POST /api/auth/link/email',
    'POST /api/auth/link/oauth',
  ] as const) {
    const { status, body } = await api.call(line, { as: key })
    assert.deepEqual([status, body.message], [403, 'API keys cannot be used here'], line)
  }
})

test('expiry goes by the database, not by this machine', async () => {
  const { token } = await api.signUp('clock@x.test')
  const real = Date.now
  try {
    Date.now = () => real() + 86_400_000
    assert.equal((await me(token)).status, 200)
    Date.now = () => real() - 86_400_000
    assert.equal((await me(token)).status, 200)
    const { token: made } = await api.signUp('clock2@x.test')
    const { exp } = JSON.parse(Buffer.from(made.split('.')[1] ?? '', 'base64url').toString())
    assert.ok(Math.abs(exp - 900 - real() / 1000) < 60)
  } finally {
    Date.now = real
  }
})

test('logout survives kill -9 and a restart', async () => {
  const first = await spawnServer({ on: api })
  const { token, refreshToken } = await first.signUp('killed@x.test')
  const kept = await first.call('POST /api/auth/login', { json: { email: 'killed@x.test', password } })
  assert.equal(kept.status, 200)
  assert.equal((await first.call('POST /api/auth/logout', { json: { refreshToken } })).status, 204)
  await first.kill('SIGKILL')
  const second = await spawnServer({ on: api })
  assert.equal((await second.call('POST /api/auth/refresh', { json: { refreshToken } })).status, 401)
  assert.equal((await me(token, second)).status, 401)
  const still = await me(kept.body.token, second)
  assert.deepEqual([still.status, still.body.message], [200, undefined])
  await second.kill('SIGTERM')
})
