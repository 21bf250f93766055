import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimsOf, signInWithTotp, signUpWithTotp } from '../../../test/fakes/authenticator.ts'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'auth.totp_enabled': true, 'auth.anonymous_auth_enabled': true } })

const PASSWORD = 'long enough password'
const change = (as: string, current_password: unknown, password: unknown) =>
  api.call('POST /api/auth/password-change', { as, json: { current_password, password } })
const login = (email: string, password: string) => api.call('POST /api/auth/login', { json: { email, password } })

test('a changed password ends every session but the new one, and is told by mail', async () => {
  const first = await api.signUp('a@x.test')
  const second = (await login('a@x.test', PASSWORD)).body
  const { status, body } = await change(first.token, PASSWORD, 'another long password')
  assert.equal(status, 200)
  for (const { token, refreshToken } of [first, second]) {
    assert.equal((await api.call('GET /api/auth/me', { as: token })).status, 401)
    assert.equal((await api.call('POST /api/auth/refresh', { json: { refreshToken } })).status, 401)
  }
  assert.equal((await api.call('GET /api/auth/me', { as: body.token })).status, 200)
  assert.deepEqual([claimsOf(body.token).aal, claimsOf(body.token).amr], ['aal1', ['password']])
  assert.equal((await login('a@x.test', PASSWORD)).status, 401)
  assert.equal((await login('a@x.test', 'another long password')).status, 200)
  const mail = mailbox(api)
  await eventually(() =>
    assert.ok(mail.mails('a@x.test').some(({ text }) => text.includes('password of your Savanna account was changed'))),
  )
})

test('a wrong password changes nothing, and guessing it is counted as at a login', async () => {
  const { token } = await api.signUp('b@x.test')
  for (let i = 0; i < 10; i++) {
    const { status, body } = await change(token, `wrong ${i}`, 'another long password')
    assert.deepEqual([status, body.message], [401, 'invalid current password'])
  }
  assert.equal((await change(token, PASSWORD, 'another long password')).status, 429)
  assert.equal((await login('b@x.test', PASSWORD)).status, 429)
  assert.equal((await api.call('GET /api/auth/me', { as: token })).status, 200)
})

test('a second factor is wanted where there is one, and the new session keeps its level', async () => {
  const { token, user, app } = await signUpWithTotp(api, 'c@x.test')
  assert.equal((await change(token, PASSWORD, 'another long password')).status, 403)
  const strong = await signInWithTotp(api, 'c@x.test', user.id, app)
  const { status, body } = await change(strong.token, PASSWORD, 'another long password')
  assert.equal(status, 200)
  assert.deepEqual([claimsOf(body.token).aal, claimsOf(body.token).amr], ['aal2', ['password', 'totp']])
})

test('of parallel changes one wins', async () => {
  const { token } = await api.signUp('d@x.test')
  const answers = await Promise.all(
    Array.from({ length: 6 }, (_, i) => change(token, PASSWORD, `another long password ${i}`)),
  )
  assert.equal(answers.filter(({ status }) => status === 200).length, 1)
  assert.ok(answers.every(({ status }) => status === 200 || status === 401))
})

test('what cannot be changed', async () => {
  const { token } = await api.signUp('e@x.test')
  for (const [current, next, message] of [
    [undefined, 'another long password', 'current_password is required'],
    [PASSWORD, undefined, 'password is required'],
    [PASSWORD, 'short', 'password must be at least 8 characters'],
    [PASSWORD, 'x'.repeat(1025), 'password must be at most 1024 bytes'],
  ]) {
    const { status, body } = await change(token, current, next)
    assert.deepEqual([status, body.message], [400, message])
  }
  const { body: anonymous } = await api.call('POST /api/auth/anonymous')
  const { status, body } = await change(anonymous.token, PASSWORD, 'another long password')
  assert.deepEqual([status, body.message], [400, 'account has no password'])
})
