import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimsOf, enrollTotp, forgetSteps, signInWithTotp, signUpWithTotp } from '../fakes/authenticator.ts'
import { mailbox } from '../fakes/mailbox.ts'
import { oauthApplication } from '../fakes/oauth-application.ts'
import { addPasskey, askPasskey, Passkey, passkeyConfig, signUpWithPasskey } from '../fakes/passkey.ts'
import { startServer } from '../kit/kit.ts'

const api = await startServer({
  config: { ...passkeyConfig, 'auth.oauth_provider.enabled': true, 'auth.totp_enabled': true },
})
const app = await oauthApplication(api, (await api.signUp('operator@x.test')).user.id)
const mail = mailbox(api)
const needsBoth = { status: 403, error: 'insufficient_aal' }
const told = ({ status, body }: { status: number; body: { error?: string } }) => ({ status, error: body.error })
const makeKey = (as: string) => api.call('POST /api/auth/api-keys', { as, json: { name: 'script' } })
const me = async (as: string) => (await api.call('GET /api/auth/me', { as })).status

test('with a second factor, what outlives a session needs both', async () => {
  const ana = await signUpWithTotp(api, 'ana@x.test')
  assert.deepEqual(told(await makeKey(ana.token)), needsBoth)
  assert.deepEqual(told(await app.approve(ana.token)), needsBoth)
  assert.deepEqual(told(await api.call('DELETE /api/auth/me', { as: ana.token })), needsBoth)
  assert.equal((await app.authorize(ana.token)).body.requires_consent, true, 'to be asked needs no more')

  const { token } = await signInWithTotp(api, 'ana@x.test', ana.user.id, ana.app)
  assert.equal((await makeKey(token)).status, 201)
  assert.equal((await app.approve(token)).status, 200)
  assert.deepEqual(told(await app.authorize(ana.token)), needsBoth, 'nor is a remembered consent a code')
  assert.equal((await app.authorize(token)).body.requires_consent, false)
  assert.equal((await api.call('DELETE /api/auth/me', { as: token })).status, 204)
})

test('a signed-in user proves the second factor without the first one again', async () => {
  const bo = await signUpWithTotp(api, 'bo@x.test')
  const stepUp = () => api.call('POST /api/auth/mfa/step-up', { as: bo.token })
  const first = await stepUp()
  assert.deepEqual([first.status, first.body.methods], [200, ['totp']])
  const { mfa_token: as } = (await stepUp()).body
  const challenge = (bearer: string) => api.call('POST /api/auth/mfa/totp/challenge', { as: bearer })
  assert.equal((await challenge(first.body.mfa_token)).status, 401, 'a later token replaces it')
  assert.equal((await api.call('GET /api/auth/me', { as })).status, 401, 'it is good for nothing else')
  await forgetSteps(api, bo.user.id)
  const json = { challenge_id: (await challenge(as)).body.challenge_id, code: bo.app.code() }
  const proven = await api.call('POST /api/auth/mfa/totp/verify', { as, json })
  assert.equal(proven.status, 200, proven.text)
  const { aal, amr, sub } = claimsOf(proven.body.token)
  assert.deepEqual([aal, amr, sub], ['aal2', ['password', 'totp'], bo.user.id])

  const { mfa_token: later } = (await stepUp()).body
  await api.call('POST /api/auth/logout', { json: { refreshToken: bo.refreshToken } })
  assert.equal((await challenge(later)).status, 401, 'it ends with the session that began it')
})

test('with a passkey too, also after a sign-in by passkey; without a second factor there is nothing to prove', async () => {
  const { passkey } = await signUpWithPasskey(api, 'cy@x.test')
  const begun = (await api.call('POST /api/auth/webauthn/login/begin', { json: { email: 'cy@x.test' } })).body
  const login = { challenge_id: begun.challenge_id, assertion_response: passkey.get(begun.options) }
  const { token } = (await api.call('POST /api/auth/webauthn/login/finish', { json: login })).body
  assert.equal(claimsOf(token).aal, 'aal1')
  assert.deepEqual(told(await makeKey(token)), needsBoth)
  const { mfa_token: as, methods } = (await api.call('POST /api/auth/mfa/step-up', { as: token })).body
  assert.deepEqual(methods, ['webauthn'])
  const { challenge_id, options } = await askPasskey(api, as)
  const json = { challenge_id, assertion_response: passkey.get(options) }
  const proven = await api.call('POST /api/auth/mfa/webauthn/verify', { as, json })
  assert.equal((await makeKey(proven.body.token)).status, 201)

  const plain = await api.signUp('plain@x.test')
  const none = await api.call('POST /api/auth/mfa/step-up', { as: plain.token })
  assert.deepEqual(told(none), { status: 404, error: 'factor_not_found' })
  assert.equal((await api.call('POST /api/auth/mfa/step-up')).status, 401)
})

test('the first second factor ends the other sessions, and no more', async () => {
  const email = 'dee@x.test'
  const json = { email, password: 'long enough password' }
  const early = await api.signUp(email)
  const stolen = (await api.call('POST /api/auth/login', { json })).body
  const totp = await enrollTotp(api, early.token, early.user.id)
  assert.deepEqual([await me(early.token), await me(stolen.token)], [200, 401])
  const renewed = await api.call('POST /api/auth/refresh', { json: { refreshToken: stolen.refreshToken } })
  assert.equal(renewed.status, 401)

  const { token } = await signInWithTotp(api, email, early.user.id, totp)
  await addPasskey(api, token, new Passkey())
  assert.equal(await me(early.token), 200, 'a second one ends nothing')
})

test('a reset ends the keys that sessions made, and a key that is being made; keys of the operator stay', async () => {
  const eve = await api.signUp('eve@x.test')
  const { key } = (await makeKey(eve.token)).body
  const json = { userId: eve.user.id, name: 'of the operator' }
  const { key: operatorKey } = (await api.call('POST /api/admin/api-keys', { as: 'admin', json })).body
  assert.deepEqual([await me(key), await me(operatorKey)], [200, 200])
  await api.call('POST /api/auth/password-reset', { json: { email: 'eve@x.test' } })
  const reset = { token: await mail.token('eve@x.test', 2), password: 'another long password' }
  const [answer, ...raced] = await Promise.all([
    api.call('POST /api/auth/password-reset/confirm', { json: reset }),
    ...Array.from({ length: 8 }, () => makeKey(eve.token)),
  ])
  assert.equal(answer.status, 204)
  for (const { status, body } of raced) if (status === 201) assert.equal(await me(body.key), 401)
  assert.deepEqual([await me(key), await me(operatorKey)], [401, 401], 'an unproven address proves nothing else')
  const [{ live }] = await api.sql(
    'select count(*) as live from svc.api_keys where user_id = $1 and revoked_at is null',
    [eve.user.id],
  )
  assert.equal(Number(live), 0)

  const { body: again } = await api.call('POST /api/auth/login', {
    json: { email: 'eve@x.test', password: 'another long password' },
  })
  const { key: own } = (await makeKey(again.token)).body
  const { key: given } = (await api.call('POST /api/admin/api-keys', { as: 'admin', json })).body
  await api.call('POST /api/auth/password-reset', { json: { email: 'eve@x.test' } })
  const second = { token: await mail.token('eve@x.test', 3), password: 'a third long password' }
  assert.equal((await api.call('POST /api/auth/password-reset/confirm', { json: second })).status, 204)
  assert.deepEqual([await me(own), await me(given)], [401, 200])
})
