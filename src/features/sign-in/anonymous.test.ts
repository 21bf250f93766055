import assert from 'node:assert/strict'
import { test } from 'node:test'
import { firstFactor, signUpWithTotp } from '../../../test/fakes/authenticator.ts'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { oauthApplication } from '../../../test/fakes/oauth-application.ts'
import { startServer } from '../../../test/kit/kit.ts'

const config = {
  'auth.anonymous_auth_enabled': true,
  'auth.magic_link_enabled': true,
  'auth.totp_enabled': true,
  'auth.oauth_provider.enabled': true,
}
const api = await startServer({ config })
const other = await startServer({ config, on: api })
const mail = mailbox(api)
const password = 'long enough password'

const anonymous = async () => (await api.call('POST /api/auth/anonymous')).body
const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

test('an anonymous account is a user without credentials', async () => {
  const { status, body } = await api.call('POST /api/auth/anonymous')
  assert.equal(status, 201)
  assert.deepEqual([body.user.email, body.user.is_anonymous, body.user.emailVerified], ['', true, false])
  const claims = claimsOf(body.token)
  assert.deepEqual([claims.amr, claims.is_anonymous, claims.email, claims.aal], [['anonymous'], true, '', 'aal1'])
  assert.deepEqual((await api.call('GET /api/auth/me', { as: body.token })).body, body.user)
  assert.equal((await api.call('POST /api/auth/refresh', { json: { refreshToken: body.refreshToken } })).status, 200)
})

test('what is refused while it is off counts on no limit', async () => {
  const off = await startServer({ config: { ...config, 'rate_limit.anonymous': '1/min' } })
  const set = (anonymous_auth_enabled: boolean) =>
    off.call('PATCH /api/admin/auth-settings', { as: 'admin', json: { anonymous_auth_enabled } })
  await set(false)
  assert.equal((await off.call('POST /api/auth/anonymous')).status, 404)
  assert.equal((await off.call('POST /api/auth/anonymous')).status, 404)
  await set(true)
  assert.equal((await off.call('POST /api/auth/anonymous')).status, 201)
  assert.equal((await off.call('POST /api/auth/anonymous')).status, 429)
})

test('anonymous accounts are off by default', async () => {
  const off = await startServer({ on: api })
  const { status, body } = await off.call('POST /api/auth/anonymous')
  assert.deepEqual(
    [status, body],
    [404, { code: 404, error: 'feature_disabled', message: 'anonymous authentication is not enabled' }],
  )
})

test('linking an address keeps the id and replaces the tokens', async () => {
  const before = await anonymous()
  const { status, body } = await api.call('POST /api/auth/link/email', {
    as: before.token,
    json: { email: 'Linked@x.test', password, is_anonymous: true, emailVerified: true },
  })
  assert.equal(status, 200)
  const { user } = body
  assert.deepEqual(
    [user.id, user.email, user.is_anonymous, user.emailVerified],
    [before.user.id, 'linked@x.test', false, false],
  )
  assert.match(user.linked_at, /Z$/)
  assert.deepEqual([claimsOf(body.token).amr, claimsOf(body.token).is_anonymous], [['password'], false])
  assert.equal((await api.call('GET /api/auth/me', { as: before.token })).status, 401)
  assert.equal((await api.call('POST /api/auth/refresh', { json: { refreshToken: before.refreshToken } })).status, 401)
  assert.equal((await api.call('GET /api/auth/me', { as: body.token })).status, 200)
  assert.equal((await api.call('POST /api/auth/login', { json: { email: 'linked@x.test', password } })).status, 200)
  assert.equal(
    (await api.call('POST /api/auth/verify', { json: { token: await mail.token('linked@x.test') } })).status,
    204,
  )

  const again = await api.call('POST /api/auth/link/email', {
    as: body.token,
    json: { email: 'second@x.test', password },
  })
  assert.deepEqual([again.status, again.body.message], [403, 'only anonymous accounts can link credentials'])
})

test('of parallel links exactly one succeeds', async () => {
  const { token } = await anonymous()
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      (i % 2 ? api : other).call('POST /api/auth/link/email', {
        as: token,
        json: { email: `many${i}@x.test`, password },
      }),
    ),
  )
  assert.equal(answers.filter(({ status }) => status === 200).length, 1)
  assert.ok(answers.every(({ status }) => [200, 401, 403].includes(status)))
})

test('linking refuses what registration refuses, and taken addresses', async () => {
  await api.signUp('taken@x.test')
  const { token, user } = await anonymous()
  for (const [json, status, message] of [
    [{}, 400, 'email is required'],
    [{ email: 'x', password }, 400, 'invalid email format'],
    [{ email: 'a@x.test' }, 400, 'password is required'],
    [{ email: 'a@x.test', password: 'short' }, 400, 'password must be at least 8 characters'],
    [{ email: {}, password }, 400, 'email must be a string'],
    [{ email: 'a@x.test', password: {} }, 400, 'password must be a string'],
    [{ email: 'TAKEN@x.test', password }, 409, 'email already belongs to another account'],
  ] as const) {
    const answer = await api.call('POST /api/auth/link/email', { as: token, json })
    assert.deepEqual([answer.status, answer.body.message], [status, message])
  }
  assert.equal((await api.call('POST /api/auth/link/email', { json: { email: 'a@x.test', password } })).status, 401)
  assert.equal((await api.call('GET /api/auth/me', { as: token })).body.id, user.id)
})

test('a magic link with an anonymous bearer upgrades that account', async () => {
  const before = await anonymous()
  await api.call('POST /api/auth/magic-link', { json: { email: 'up@x.test' } })
  const token = await mail.token('up@x.test')
  const { status, body } = await api.call('POST /api/auth/magic-link/confirm', { as: before.token, json: { token } })
  assert.equal(status, 200)
  assert.deepEqual(
    [body.user.id, body.user.email, body.user.emailVerified, body.user.is_anonymous],
    [before.user.id, 'up@x.test', true, false],
  )
  assert.ok(body.user.linked_at)
  assert.equal((await api.call('GET /api/auth/me', { as: before.token })).status, 401)
})

test('a magic link does not move a taken address, and ignores a bearer that is not anonymous', async () => {
  const owner = await api.signUp('owner@x.test')
  const before = await anonymous()
  await api.call('POST /api/auth/magic-link', { json: { email: 'owner@x.test' } })
  const token = await mail.token('owner@x.test', 2)
  const taken = await api.call('POST /api/auth/magic-link/confirm', { as: before.token, json: { token } })
  assert.deepEqual([taken.status, taken.body.message], [409, 'email already belongs to another account'])

  const someone = await api.signUp('someone@x.test')
  const mine = await api.call('POST /api/auth/magic-link/confirm', { as: someone.token, json: { token } })
  assert.deepEqual([mine.status, mine.body.user.id], [200, owner.user.id])
  const bad = await api.call('POST /api/auth/magic-link/confirm', { as: 'x.y.z', json: { token: 'x' } })
  assert.deepEqual([bad.status, bad.body.message], [401, 'invalid or expired token'])
})

test('a magic link signs in whatever good bearer of another kind comes along', async () => {
  const { user, token } = await api.signUp('bearers@x.test')
  const key = (await api.call('POST /api/auth/api-keys', { as: token, json: { name: 'k' } })).body.key
  await signUpWithTotp(api, 'pending@x.test')
  const app = await oauthApplication(api, user.id)
  const [data, openid] = [await app.granted(token), await app.granted(token, { scope: 'openid' })]
  const bearers = { key, pending: await firstFactor(api, 'pending@x.test'), data: data.access, openid: openid.access }
  const confirm = (as: string, link: string) =>
    api.call('POST /api/auth/magic-link/confirm', { as, json: { token: link } })
  for (const [i, [kind, as]] of Object.entries({ ...bearers, admin: 'admin' }).entries()) {
    const bad = await confirm(as, 'x')
    assert.deepEqual([bad.status, bad.body.message], [400, 'invalid or expired magic link token'], kind)
    await api.call('POST /api/auth/magic-link', { json: { email: 'anybody@x.test' } })
    const { status, body } = await confirm(as, await mail.token('anybody@x.test', i + 1))
    assert.deepEqual([status, body.user?.email], [200, 'anybody@x.test'], kind)
  }
})
