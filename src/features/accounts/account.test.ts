import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
const password = 'long enough password'

test('register, sign in, read and delete an account', async () => {
  const made = await api.call('POST /api/auth/register', { json: { email: ' Ana@X.test ', password } })
  assert.equal(made.status, 201)
  assert.deepEqual(Object.keys(made.body).sort(), ['refreshToken', 'token', 'user'])
  const { user } = made.body
  assert.deepEqual(Object.keys(user), ['id', 'email', 'emailVerified', 'is_anonymous', 'createdAt', 'updatedAt'])
  assert.deepEqual([user.email, user.emailVerified, user.is_anonymous], ['ana@x.test', false, false])
  assert.match(user.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.equal(made.headers.get('cache-control'), 'no-store')

  const claims = JSON.parse(Buffer.from(made.body.token.split('.')[1], 'base64url').toString())
  assert.deepEqual(Object.keys(claims).sort(), [
    'aal',
    'amr',
    'aud',
    'email',
    'exp',
    'iat',
    'is_anonymous',
    'iss',
    'jti',
    'mfa_pending',
    'sid',
    'sub',
  ])
  assert.deepEqual([claims.sub, claims.aal, claims.amr, claims.mfa_pending], [user.id, 'aal1', ['password'], false])
  assert.equal(claims.exp - claims.iat, 900)

  const login = await api.call('POST /api/auth/login', { json: { email: 'ANA@x.test', password } })
  assert.equal(login.status, 200)
  assert.deepEqual(login.body.user, user)
  const me = await api.call('GET /api/auth/me', { as: login.body.token })
  assert.deepEqual([me.status, me.body], [200, user])

  assert.equal((await api.call('DELETE /api/auth/me', { as: login.body.token })).status, 204)
  for (const as of [login.body.token, made.body.token]) {
    const gone = await api.call('GET /api/auth/me', { as })
    assert.deepEqual(
      [gone.status, gone.body],
      [401, { code: 401, error: 'invalid_token', message: 'invalid or expired token' }],
    )
  }
  const again = await api.call('POST /api/auth/login', { json: { email: 'ana@x.test', password } })
  assert.deepEqual([again.status, again.body.message], [401, 'invalid email or password'])
})

test('an address is registered once, however it is spelled and however many try at once', async () => {
  await api.signUp('once@x.test')
  for (const email of ['once@x.test', 'ONCE@X.TEST', ' once@x.test']) {
    const { status, body } = await api.call('POST /api/auth/register', { json: { email, password } })
    assert.deepEqual([status, body], [409, { code: 409, error: 'email_taken', message: 'email already registered' }])
  }
  const race = await Promise.all(
    Array.from({ length: 20 }, () => api.call('POST /api/auth/register', { json: { email: 'race@x.test', password } })),
  )
  assert.deepEqual(race.map(({ status }) => status).sort(), [201, ...Array(19).fill(409)])
  for (const email of ['once+tag@x.test', '\u006F\u0578ce@x.test']) {
    assert.equal((await api.call('POST /api/auth/register', { json: { email, password } })).status, 201)
  }
})

test('bad registrations are told what is wrong', async () => {
  const cases: [unknown, string][] = [
    [{}, 'email is required'],
    [{ email: '', password }, 'email is required'],
    [{ email: 'nobody', password }, 'invalid email format'],
    [{ email: `${'a'.repeat(321)}@x.test`, password }, 'invalid email format'],
    [{ email: 'p@x.test' }, 'password is required'],
    [{ email: 'p@x.test', password: '' }, 'password is required'],
    [{ email: 'p@x.test', password: '1234567' }, 'password must be at least 8 characters'],
    [{ email: 'p@x.test', password: 'a'.repeat(1025) }, 'password must be at most 1024 bytes'],
    [{ email: 'p@x.test', password: 'é'.repeat(600) }, 'password must be at most 1024 bytes'],
    [{ email: 'p@x.test', password: 'a'.repeat(900_000) }, 'password must be at most 1024 bytes'],
    [{ email: ['p@x.test'], password }, 'email must be a string'],
    [{ email: { a: 1 }, password }, 'email must be a string'],
    [{ email: 7, password }, 'email must be a string'],
    [{ email: 'p@x.test', password: 12345678 }, 'password must be a string'],
    [{ email: 'p@x.test', password: ['12345678'] }, 'password must be a string'],
    [{ email: 'p@x.test\u0000', password }, 'email must not contain NUL'],
    [[], 'invalid JSON body'],
    ['text', 'invalid JSON body'],
    [null, 'invalid JSON body'],
  ]
  for (const [json, message] of cases) {
    const { status, body } = await api.call('POST /api/auth/register', { json })
    assert.deepEqual([status, body.message], [400, message])
  }
})

test('long passwords count to their last byte, and NUL is a character like any other', async () => {
  const [one, two] = [`${'a'.repeat(79)}x`, `${'a'.repeat(79)}y`]
  await api.signUp('long@x.test', one)
  assert.equal((await api.call('POST /api/auth/login', { json: { email: 'long@x.test', password: two } })).status, 401)
  assert.equal((await api.call('POST /api/auth/login', { json: { email: 'long@x.test', password: one } })).status, 200)
  await api.signUp('nul@x.test', 'before\u0000after')
  const cut = await api.call('POST /api/auth/login', { json: { email: 'nul@x.test', password: 'before\u0000other' } })
  assert.equal(cut.status, 401)
  for (const length of [8, 64, 256, 1024]) await api.signUp(`length${length}@x.test`, 'p'.repeat(length))
})

test('fields a client may not set are ignored', async () => {
  const { body } = await api.call('POST /api/auth/register', {
    json: {
      email: 'mass@x.test',
      password,
      id: '00000000-0000-0000-0000-000000000001',
      emailVerified: true,
      is_anonymous: true,
      role: 'admin',
      aal: 'aal2',
      amr: ['totp'],
      createdAt: '2000-01-01T00:00:00Z',
      expiresAt: null,
      __proto__: { emailVerified: true },
      email_verified_at: 'now()',
      phone: '+41790000000',
    },
  })
  assert.notEqual(body.user.id, '00000000-0000-0000-0000-000000000001')
  assert.deepEqual([body.user.emailVerified, body.user.is_anonymous, body.user.phone], [false, false, undefined])
  assert.ok(Date.parse(body.user.createdAt) > Date.parse('2020-01-01'))
  const claims = JSON.parse(Buffer.from(body.token.split('.')[1], 'base64url').toString())
  assert.deepEqual([claims.aal, claims.amr], ['aal1', ['password']])
})

test('a wrong password, an unknown address and an account without password get one answer', async () => {
  await api.signUp('known@x.test')
  await api.sql(`insert into svc.users (email) values ('nopassword@x.test')`)
  const answers = []
  for (const email of ['known@x.test', 'unknown@x.test', 'nopassword@x.test']) {
    const { status, text } = await api.call('POST /api/auth/login', { json: { email, password: 'wrong password' } })
    answers.push(`${status} ${text}`)
  }
  assert.deepEqual(
    [...new Set(answers)],
    [
      `401 {"code":401,"error":"invalid_credentials","message":"invalid email or password","doc_url":"${new URL(api.url).origin.replace('127.0.0.1', 'localhost')}/api/docs#invalid_credentials"}`,
    ],
  )
  const tooLong = await api.call('POST /api/auth/login', {
    json: { email: 'known@x.test', password: 'a'.repeat(5000) },
  })
  assert.equal(tooLong.status, 401)
})

test('logout ends the session for good, and unknown tokens are no news', async () => {
  const { token, refreshToken } = await api.signUp('out@x.test')
  assert.equal((await api.call('POST /api/auth/logout', { json: { refreshToken } })).status, 204)
  assert.equal((await api.call('GET /api/auth/me', { as: token })).status, 401)
  const replay = await api.call('POST /api/auth/refresh', { json: { refreshToken } })
  assert.deepEqual([replay.status, replay.body.message], [401, 'invalid or expired refresh token'])
  assert.equal((await api.call('POST /api/auth/logout', { json: { refreshToken } })).status, 204)
  assert.equal((await api.call('POST /api/auth/logout', { json: { refreshToken: 'never seen' } })).status, 204)
  for (const path of ['logout', 'refresh'] as const) {
    for (const [json, message] of [
      [{}, 'refreshToken is required'],
      [{ refreshToken: '' }, 'refreshToken is required'],
      [{ refreshToken: 7 }, 'refreshToken must be a string'],
      [{ refreshToken: [refreshToken] }, 'refreshToken must be a string'],
      [{ refreshToken: { $ne: null } }, 'refreshToken must be a string'],
    ] as const) {
      const { status, body } = await api.call(`POST /api/auth/${path}`, { json })
      assert.deepEqual([status, body.message], [400, message])
    }
  }
})
