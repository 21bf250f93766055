import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  authenticator,
  challenge,
  claimsOf,
  enrollTotp,
  firstFactor,
  forgetSteps,
  signInWithTotp,
  signUpWithTotp,
} from '../../../test/fakes/authenticator.ts'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { startServer } from '../../../test/kit/kit.ts'

const config = {
  'auth.totp_enabled': true,
  'auth.email_mfa_enabled': true,
  'auth.sms_enabled': true,
  'auth.magic_link_enabled': true,
  'auth.anonymous_auth_enabled': true,
  'auth.sms_test_phone_numbers': { '+41790000001': '424242', '+41790000002': '434343' },
}
const api = await startServer({ config })
const mail = mailbox(api)
const password = 'long enough password'
const told = ({ status, body }: { status: number; body: { message?: string } }) => [status, body.message]
const INSUFFICIENT = {
  code: 403,
  error: 'insufficient_aal',
  message: 'insufficient authentication assurance level: aal2 required',
  data: { aal: { code: 'insufficient_aal', message: 'aal2 required' } },
}

const verifyEmail = async (email: string) =>
  assert.equal((await api.call('POST /api/auth/verify', { json: { token: await mail.token(email) } })).status, 204)

test('a first factor of a user with a second one opens no session', async () => {
  const { user } = await signUpWithTotp(api, 'pending@x.test')
  const { status, body } = await api.call('POST /api/auth/login', { json: { email: 'pending@x.test', password } })
  assert.equal(status, 200)
  assert.deepEqual(Object.keys(body), ['mfa_pending', 'mfa_token'])
  const claims = claimsOf(body.mfa_token)
  assert.deepEqual(
    [claims.mfa_pending, claims.amr, claims.aal, claims.sid, claims.exp - claims.iat],
    [true, ['password'], 'aal1', undefined, 300],
  )
  assert.equal((await api.sql('select 1 from svc.sessions where user_id = $1', [user.id])).length, 1)
})

test('an MFA token is good for the second factor and for nothing else', async () => {
  await api.sql(`create table plain (id int primary key); insert into plain values (1)`)
  const { token } = await signUpWithTotp(api, 'only@x.test')
  const as = await firstFactor(api, 'only@x.test')
  const open = ['POST /api/admin/auth', 'GET /api/admin/status']
  for (const { method, path, auth, upgrade } of api.app.routes) {
    // Routes of sockets check the upgrade before the caller; that of agents is off here.
    const isElsewhere = ['own', 'none', 'anonymous-user', 'mfa', 'user-or-mfa'].includes(auth)
    if (upgrade || isElsewhere || open.includes(`${method} ${path}`)) continue
    const target = path.replace('{table}', 'plain').replace(/\{\w+(\.\.\.)?\}/g, 'x') as `/${string}`
    const answer = await api.call(`${method} ${target}`, { as, ...(method !== 'GET' && { json: {} }) })
    assert.equal(answer.status, 401, `${method} ${path}`)
  }
  assert.deepEqual(told(await api.call('GET /api/auth/me', { as })), [401, 'MFA verification required'])
  assert.equal((await api.call('POST /api/auth/refresh', { json: { refreshToken: as } })).status, 401)

  for (const { method, path, auth } of api.app.routes.filter((route) => route.auth === 'mfa')) {
    const answer = await api.call(`${method} ${path as `/${string}`}`, { as: token, json: {} })
    assert.deepEqual(told(answer), [401, 'no MFA challenge pending'], `${path} ${auth}`)
  }
})

test('keys and admin tokens have no business with second factors', async () => {
  const { token } = await api.signUp('keys@x.test')
  const { key } = (await api.call('POST /api/auth/api-keys', { as: token, json: { name: 'x' } })).body
  const routes = api.app.routes.filter(({ path }) => path.startsWith('/api/auth/mfa/'))
  assert.ok(routes.length >= 17)
  for (const { method, path } of routes) {
    const line = `${method} ${path as `/${string}`}` as const
    const json = method === 'POST' ? { json: {} } : {}
    assert.deepEqual(told(await api.call(line, { as: key, ...json })), [403, 'API keys cannot be used here'], line)
    assert.deepEqual(told(await api.call(line, { as: 'admin', ...json })), [401, 'not authenticated'], line)
    assert.equal((await api.call(line, json)).status, 401, line)
    assert.deepEqual(told(await api.call(line, { as: 'a.b.c', ...json })), [401, 'invalid or expired token'], line)
  }
})

test('every first factor waits for the second', async () => {
  const { user, app } = await signUpWithTotp(api, 'all@x.test')
  await verifyEmail('all@x.test')
  const methods: string[][] = []
  const finish = async (answer: { status: number; body: { mfa_pending?: boolean; mfa_token?: string } }) => {
    assert.deepEqual([answer.status, answer.body.mfa_pending], [200, true])
    const as = answer.body.mfa_token ?? ''
    await forgetSteps(api, user.id)
    const json = { challenge_id: await challenge(api, 'totp', as), code: app.code() }
    const done = await api.call('POST /api/auth/mfa/totp/verify', { as, json })
    assert.deepEqual([done.status, done.body.user.id, claimsOf(done.body.token).aal], [200, user.id, 'aal2'])
    methods.push(claimsOf(done.body.token).amr)
  }

  await api.call('POST /api/auth/magic-link', { json: { email: 'all@x.test' } })
  const token = await mail.token('all@x.test', 2)
  await finish(await api.call('POST /api/auth/magic-link/confirm', { json: { token } }))

  await api.sql(`update svc.users set phone = '+41790000001' where id = $1`, [user.id])
  await api.call('POST /api/auth/sms', { json: { phone: '+41790000001' } })
  await finish(await api.call('POST /api/auth/sms/confirm', { json: { phone: '+41790000001', code: '424242' } }))

  await api.call('POST /api/auth/password-reset', { json: { email: 'all@x.test' } })
  const json = { token: await mail.token('all@x.test', 3), password: 'another long password' }
  assert.equal((await api.call('POST /api/auth/password-reset/confirm', { json })).status, 204)
  const login = { email: 'all@x.test', password: 'another long password' }
  await finish(await api.call('POST /api/auth/login', { json: login }))
  assert.deepEqual(methods, [
    ['otp', 'totp'],
    ['otp', 'totp'],
    ['password', 'totp'],
  ])
})

test('a reset and a rotation end the logins that wait', async () => {
  const { user } = await signUpWithTotp(api, 'waits@x.test')
  await verifyEmail('waits@x.test')
  const before = await firstFactor(api, 'waits@x.test')
  const factors = (as: string) => api.call('GET /api/auth/mfa/factors', { as })
  assert.equal((await factors(before)).status, 200)
  await api.call('POST /api/auth/password-reset', { json: { email: 'waits@x.test' } })
  const json = { token: await mail.token('waits@x.test', 2), password }
  assert.equal((await api.call('POST /api/auth/password-reset/confirm', { json })).status, 204)
  assert.deepEqual(told(await factors(before)), [401, 'invalid or expired token'])

  const old = await firstFactor(api, 'waits@x.test')
  assert.equal((await api.call('POST /api/admin/secrets/rotate', { as: 'admin' })).status, 200)
  assert.deepEqual(told(await factors(old)), [401, 'invalid or expired token'])
  assert.deepEqual(await api.sql('select from svc.pending_logins where user_id = $1', [user.id]), [])
  assert.equal((await factors(await firstFactor(api, 'waits@x.test'))).status, 200, 'the factor stays')

  const late = await firstFactor(api, 'waits@x.test')
  await api.sql(`update svc.pending_logins set expires_at = now()`)
  assert.deepEqual(told(await factors(late)), [401, 'invalid or expired token'])
})

test('whoever registered an address before its owner came leaves no factor behind', async () => {
  const { user, app, token } = await signUpWithTotp(api, 'victim@x.test')
  const attacker = await signInWithTotp(api, 'victim@x.test', user.id, app)
  await api.call('POST /api/auth/mfa/backup/generate', { as: attacker.token })
  const waiting = await firstFactor(api, 'victim@x.test')

  await api.call('POST /api/auth/magic-link', { json: { email: 'victim@x.test' } })
  const json = { token: await mail.token('victim@x.test', 2) }
  const owner = await api.call('POST /api/auth/magic-link/confirm', { json })
  assert.deepEqual([owner.status, owner.body.user.id], [200, user.id])
  const { body } = await api.call('GET /api/auth/mfa/factors', { as: owner.body.token })
  assert.deepEqual(body, { factors: [], webauthn: 0, backup_codes: 0 })
  for (const as of [token, attacker.token, waiting]) {
    assert.equal((await api.call('GET /api/auth/mfa/factors', { as })).status, 401)
  }
})

test('a second factor beside a first one is added only by who has shown that', async () => {
  const { token, user, app } = await signUpWithTotp(api, 'beside@x.test')
  const phone = { phone: '+41790000001' }
  for (const answer of [
    await api.call('POST /api/auth/mfa/email/enroll', { as: token }),
    await api.call('POST /api/auth/mfa/sms/enroll', { as: token, json: phone }),
  ]) {
    assert.deepEqual([answer.status, answer.body], [403, INSUFFICIENT])
  }
  const full = await signInWithTotp(api, 'beside@x.test', user.id, app)
  assert.equal((await api.call('POST /api/auth/mfa/sms/enroll', { as: full.token, json: phone })).status, 200)
  const path = 'POST /api/auth/mfa/sms/enroll/confirm'
  const refused = await api.call(path, { as: token, json: { code: '424242' } })
  assert.deepEqual([refused.status, refused.body], [403, INSUFFICIENT])
  assert.equal((await api.call(path, { as: full.token, json: { code: '424242' } })).status, 200)
})

test('an enrolment begun before there was a factor is not finished behind its back', async () => {
  const { token, user } = await api.signUp('race@x.test')
  const { uri } = (await api.call('POST /api/auth/mfa/totp/enroll', { as: token })).body
  await api.call('POST /api/auth/mfa/sms/enroll', { as: token, json: { phone: '+41790000001' } })
  const answers = await Promise.all([
    api.call('POST /api/auth/mfa/totp/enroll/confirm', { as: token, json: { code: authenticator(uri).code() } }),
    api.call('POST /api/auth/mfa/sms/enroll/confirm', { as: token, json: { code: '424242' } }),
  ])
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 403])
  const enrolled = await api.sql('select from svc.mfa_factors where user_id = $1 and confirmed_at is not null', [
    user.id,
  ])
  assert.equal(enrolled.length, 1)
})

test('anonymous accounts have no second factor', async () => {
  const { token } = (await api.call('POST /api/auth/anonymous')).body
  for (const [line, json] of [
    ['totp/enroll', {}],
    ['totp/enroll/confirm', { code: '1' }],
    ['email/enroll', {}],
    ['email/enroll/confirm', { code: '1' }],
    ['sms/enroll', { phone: '+41790000001' }],
    ['sms/enroll/confirm', { code: '1' }],
  ] as const) {
    const answer = await api.call(`POST /api/auth/mfa/${line}`, { as: token, json })
    assert.deepEqual(told(answer), [403, 'link your account before enabling MFA'], line)
  }
  assert.equal((await api.call('POST /api/auth/mfa/backup/generate', { as: token })).status, 403)
})

test('a switch that is off stops enrolment and nothing else', async () => {
  const { token, user, app } = await signUpWithTotp(api, 'off@x.test')
  const full = await signInWithTotp(api, 'off@x.test', user.id, app)
  await api.call('POST /api/auth/mfa/sms/enroll', { as: full.token, json: { phone: '+41790000002' } })
  await api.call('POST /api/auth/mfa/sms/enroll/confirm', { as: full.token, json: { code: '434343' } })
  await api.call('POST /api/auth/mfa/email/enroll', { as: full.token })
  const code = await mail.mailedCode('off@x.test')
  await api.call('POST /api/auth/mfa/email/enroll/confirm', { as: full.token, json: { code } })

  const numbers = config['auth.sms_test_phone_numbers']
  const off = await startServer({ on: api, config: { 'auth.sms_test_phone_numbers': numbers } })
  const stranger = await off.signUp('stranger@x.test')
  for (const [line, name] of [
    ['totp', 'TOTP'],
    ['email', 'email'],
    ['sms', 'SMS'],
  ]) {
    for (const call of ['enroll', 'enroll/confirm']) {
      for (const as of [stranger.token, token]) {
        const answer = await off.call(`POST /api/auth/mfa/${line}/${call}`, { as, json: {} })
        assert.deepEqual(told(answer), [404, `${name} MFA is not enabled`])
      }
    }
  }
  await forgetSteps(api, user.id)
  for (const [method, right] of [
    ['totp', async () => app.code()],
    ['sms', async () => '434343'],
    ['email', () => mailbox(api).mailedCode('off@x.test', 2)],
  ] as const) {
    const as = await firstFactor(off, 'off@x.test')
    const json = { challenge_id: await challenge(off, method, as), code: await right() }
    assert.equal((await off.call(`POST /api/auth/mfa/${method}/verify`, { as, json })).status, 200, method)
  }
})

test('switches turned by an admin count at once', async () => {
  const live = await startServer({ config })
  const { token } = await live.signUp('switch@x.test')
  const enroll = () => live.call('POST /api/auth/mfa/totp/enroll', { as: token })
  assert.equal((await enroll()).status, 200)
  await live.call('PATCH /api/admin/auth-settings', { as: 'admin', json: { email_mfa_enabled: true } })
  assert.deepEqual(told(await enroll()), [404, 'TOTP MFA is not enabled'])
})

test('factors are listed with their addresses masked, for both kinds of token', async () => {
  const { user, app, token } = await signUpWithTotp(api, 'tom@example.test')
  const full = await signInWithTotp(api, 'tom@example.test', user.id, app)
  await api.call('POST /api/auth/mfa/sms/enroll', { as: full.token, json: { phone: '+41790000001' } })
  const listed = async (as: string) => (await api.call('GET /api/auth/mfa/factors', { as })).body
  assert.equal((await listed(token)).factors.length, 1, 'a pending one is not listed')
  await api.call('POST /api/auth/mfa/sms/enroll/confirm', { as: full.token, json: { code: '424242' } })
  await api.call('POST /api/auth/mfa/email/enroll', { as: full.token })
  const code = await mail.mailedCode('tom@example.test')
  await api.call('POST /api/auth/mfa/email/enroll/confirm', { as: full.token, json: { code } })
  await api.call('POST /api/auth/mfa/backup/generate', { as: full.token })

  const rows = await api.sql('select id, method from svc.mfa_factors where user_id = $1', [user.id])
  const idOf = (method: string) => rows.find((row) => row.method === method)?.id
  const expected = {
    factors: [
      { id: idOf('totp'), method: 'totp', label: 'Authenticator app' },
      { id: idOf('sms'), method: 'sms', label: 'SMS', phone: '***0001' },
      { id: idOf('email'), method: 'email', label: 'Email', email: 't***@example.test' },
    ],
    webauthn: 0,
    backup_codes: 10,
  }
  assert.deepEqual(await listed(full.token), expected)
  assert.deepEqual(await listed(token), expected)
  assert.deepEqual(await listed(await firstFactor(api, 'tom@example.test')), expected)
})

test('a method that is not enrolled cannot be asked for', async () => {
  await signUpWithTotp(api, 'few@x.test')
  const as = await firstFactor(api, 'few@x.test')
  for (const [method, name] of [
    ['email', 'email'],
    ['sms', 'SMS'],
  ]) {
    const answer = await api.call(`POST /api/auth/mfa/${method}/challenge`, { as })
    assert.deepEqual(told(answer), [404, `no ${name} factor enrolled`])
  }
  const other = await api.signUp('texts@x.test')
  await api.call('POST /api/auth/mfa/sms/enroll', { as: other.token, json: { phone: '+41790000001' } })
  await api.call('POST /api/auth/mfa/sms/enroll/confirm', { as: other.token, json: { code: '424242' } })
  const texts = await firstFactor(api, 'texts@x.test')
  const answer = await api.call('POST /api/auth/mfa/totp/challenge', { as: texts })
  assert.deepEqual(told(answer), [404, 'no TOTP factor enrolled'])
})

test('bad bodies are told what is wrong, in every field of every call', async () => {
  const { token } = await api.signUp('types@x.test')
  await signUpWithTotp(api, 'types-mfa@x.test')
  const as = await firstFactor(api, 'types-mfa@x.test')
  const odd = [1, true, {}, [], ['123456'], { $gt: '' }, 1e308]
  const id = '00000000-0000-4000-8000-000000000000'
  for (const method of ['totp', 'email', 'sms']) {
    const confirm = `POST /api/auth/mfa/${method}/enroll/confirm` as const
    const verify = `POST /api/auth/mfa/${method}/verify` as const
    for (const code of odd) {
      assert.deepEqual(told(await api.call(confirm, { as: token, json: { code } })), [400, 'code must be a string'])
      const json = { challenge_id: id, code }
      assert.deepEqual(told(await api.call(verify, { as, json })), [400, 'code must be a string'])
      const swapped = { challenge_id: code, code: '123456' }
      assert.deepEqual(told(await api.call(verify, { as, json: swapped })), [400, 'challenge_id must be a string'])
    }
    for (const code of [undefined, null, '']) {
      assert.deepEqual(told(await api.call(confirm, { as: token, json: { code } })), [400, 'code is required'])
      const json = { challenge_id: id, code }
      assert.deepEqual(told(await api.call(verify, { as, json })), [400, 'code is required'])
      const swapped = { challenge_id: code, code: '123456' }
      assert.deepEqual(told(await api.call(verify, { as, json: swapped })), [400, 'challenge_id is required'])
    }
    for (const json of [[], 'x', 1, null]) {
      assert.deepEqual(told(await api.call(confirm, { as: token, json })), [400, 'invalid JSON body'])
      assert.deepEqual(told(await api.call(verify, { as, json })), [400, 'invalid JSON body'])
    }
    assert.deepEqual(told(await api.call(verify, { as, json: { challenge_id: 'a\0b', code: '1' } })), [
      400,
      'challenge_id must not contain NUL',
    ])
    const long = { challenge_id: 'x'.repeat(100_000), code: '1'.repeat(100_000) }
    assert.equal((await api.call(verify, { as, json: long })).status, 404)
  }
  for (const code of odd) {
    const answer = await api.call('POST /api/auth/mfa/backup/verify', { as, json: { code } })
    assert.deepEqual(told(answer), [400, 'code must be a string'])
  }
  assert.deepEqual(told(await api.call('POST /api/auth/mfa/backup/verify', { as, json: {} })), [
    400,
    'code is required',
  ])
})

test('rows for both factors are seen by who showed both', async () => {
  await api.sql(`create table vault (id int primary key); insert into vault values (1);
    alter table vault enable row level security;
    create policy strong on vault using (current_setting('svc.aal', true) = 'aal2')`)
  const { token, user } = await api.signUp('vault@x.test')
  const app = await enrollTotp(api, token, user.id)
  const seen = async (as: string) => (await api.call('GET /api/collections/vault', { as })).body.totalItems
  assert.equal(await seen(token), 0)
  assert.equal(await seen((await signInWithTotp(api, 'vault@x.test', user.id, app)).token), 1)
})
