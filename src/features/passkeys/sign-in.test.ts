import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimsOf, signInWithTotp, signUpWithTotp } from '../../../test/fakes/authenticator.ts'
import {
  addPasskey,
  assertionLies,
  type Lies,
  Passkey,
  passkeyConfig,
  signInWithBoth,
  signUpWithPasskey,
} from '../../../test/fakes/passkey.ts'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { ...passkeyConfig, 'auth.totp_enabled': true } })

type Way = 'login' | 'login/discover'
const begin = (way: Way, email?: unknown) =>
  api.call(`POST /api/auth/webauthn/${way}/begin`, { ...(email !== undefined && { json: { email } }) })
const finish = (way: Way, challenge_id: unknown, assertion_response: unknown) =>
  api.call(`POST /api/auth/webauthn/${way}/finish`, { json: { challenge_id, assertion_response } })

const { passkey, user } = await signUpWithPasskey(api, 'w@x.test')
const other = await signUpWithPasskey(api, 'other@x.test')

test('a passkey signs in by email, in any case of letters', async () => {
  const { status, body } = await begin('login', ' W@X.test ')
  assert.equal(status, 200)
  assert.deepEqual(body.options.allowCredentials, [{ id: passkey.id, type: 'public-key' }])
  assert.equal(body.options.userVerification, 'required')
  const signedIn = await finish('login', body.challenge_id, passkey.get(body.options, { userHandle: null }))
  assert.equal(signedIn.status, 200)
  const claims = claimsOf(signedIn.body.token)
  assert.deepEqual([claims.sub, claims.aal, claims.amr, claims.mfa_pending], [user.id, 'aal1', ['webauthn'], false])
})

test('a passkey signs in without an email', async () => {
  const { body } = await begin('login/discover')
  assert.equal('allowCredentials' in body.options, false)
  const signedIn = await finish('login/discover', body.challenge_id, passkey.get(body.options))
  assert.equal(signedIn.body.user.email, 'w@x.test')
})

test('a passkey is enough for whoever has other factors too', async () => {
  const { user: owner, app } = await signUpWithTotp(api, 'both@x.test')
  const { token } = await signInWithTotp(api, 'both@x.test', owner.id, app)
  const third = new Passkey()
  await addPasskey(api, token, third)
  const { body } = await begin('login', 'both@x.test')
  const signedIn = await finish('login', body.challenge_id, third.get(body.options))
  assert.deepEqual([signedIn.status, claimsOf(signedIn.body.token).aal], [200, 'aal1'])
})

test('nothing answers the decoy of an address without passkey', async () => {
  await api.signUp('without@x.test')
  for (const email of ['nobody@x.test', 'without@x.test']) {
    const { body } = await begin('login', email)
    const [{ id }] = body.options.allowCredentials
    for (const userHandle of [null, passkey.userHandle]) {
      const answer = await finish('login', body.challenge_id, passkey.get(body.options, { id, userHandle }))
      assert.deepEqual([answer.status, answer.body.message], [401, 'invalid email or passkey'])
    }
  }
})

const lies: Record<string, Lies> = {
  ...assertionLies(other.passkey),
  // A passkey alone is two factors only when it knows its user.
  'a user who was not verified': { flags: 0x01 },
}

for (const way of ['login', 'login/discover'] as const) {
  test(`whatever is wrong with an assertion at ${way}, it is refused and changes nothing`, async () => {
    const { body } = await begin(way, 'w@x.test')
    const state = () =>
      api.sql(`select sign_count, last_used_at, (select count(*) from svc.sessions) as sessions
        from svc.webauthn_credentials order by 1, 2`)
    const before = await state()
    const refuse = async (name: string, assertion: unknown, id: unknown = body.challenge_id) => {
      const { status, body: answer } = await finish(way, id, assertion)
      assert.deepEqual([status, answer.message], [401, 'invalid email or passkey'], name)
    }
    for (const [name, lie] of Object.entries(lies)) await refuse(name, passkey.get(body.options, lie))
    if (way === 'login') await refuse('the passkey of another', other.passkey.get(body.options))
    else await refuse('no handle', passkey.get(body.options, { userHandle: null }))
    for (const input of ['text', [], {}, { id: 7 }, 7]) await refuse(JSON.stringify(input), input)
    await refuse('a made-up challenge', passkey.get(body.options), 'x')
    const wrongWay = await begin(way === 'login' ? 'login/discover' : 'login', 'w@x.test')
    await refuse('a challenge of the other way', passkey.get(wrongWay.body.options), wrongWay.body.challenge_id)
    const mfaToken = (
      await api.call('POST /api/auth/login', { json: { email: 'w@x.test', password: 'long enough password' } })
    ).body.mfa_token
    const mfa = await api.call('POST /api/auth/mfa/webauthn/challenge', { as: mfaToken })
    await refuse('a challenge of the second factor', passkey.get(mfa.body.options), mfa.body.challenge_id)
    const over = await begin(way, 'w@x.test')
    await api.sql('update svc.webauthn_challenges set expires_at = now() where id = $1', [over.body.challenge_id])
    await refuse('a challenge that is over', passkey.get(over.body.options), over.body.challenge_id)
    assert.deepEqual(await state(), before)

    assert.equal((await finish(way, '', {})).body.message, 'challenge_id is required')
    assert.equal((await finish(way, 'x', null)).body.message, 'assertion_response is required')
    const good = passkey.get(body.options)
    assert.equal((await finish(way, body.challenge_id, good)).status, 200)
    await refuse('a replay', good)
    const fresh = await begin(way, 'w@x.test')
    await refuse('a replay for another challenge', good, fresh.body.challenge_id)
  })

  test(`a clone is refused at ${way}, and its challenge is spent`, async () => {
    const { body } = await begin(way, 'w@x.test')
    const [{ sign_count }] = await api.sql('select sign_count from svc.webauthn_credentials where credential_id = $1', [
      passkey.id,
    ])
    const clone = await finish(way, body.challenge_id, passkey.get(body.options, { counter: Number(sign_count) }))
    assert.deepEqual([clone.status, clone.body.message], [401, 'invalid email or passkey'])
    assert.equal((await finish(way, body.challenge_id, passkey.get(body.options))).status, 401)
    const [after] = await api.sql('select sign_count from svc.webauthn_credentials where credential_id = $1', [
      passkey.id,
    ])
    assert.equal(after.sign_count, sign_count)
  })
}

test('addresses that cannot be', async () => {
  assert.equal((await begin('login', '')).body.message, 'email is required')
  assert.equal((await begin('login')).body.message, 'email is required')
  assert.equal((await begin('login', 'no address')).body.message, 'invalid email format')
})

test('a passkey sign-in cannot manage passkeys', async () => {
  const { body } = await begin('login/discover')
  const signedIn = await finish('login/discover', body.challenge_id, passkey.get(body.options))
  assert.equal((await api.call('POST /api/auth/mfa/webauthn/enroll', { as: signedIn.body.token })).status, 403)
  await signInWithBoth(api, 'w@x.test', passkey)
})

test('while switched off there is no passkey sign-in', async () => {
  const off = await startServer()
  for (const step of ['begin', 'finish', 'discover/begin', 'discover/finish'] as const) {
    const { status, body } = await off.call(`POST /api/auth/webauthn/login/${step}`, { json: {} })
    assert.deepEqual([status, body.message], [404, 'WebAuthn is not enabled'])
  }
  await off.stop()
})

test('passkey sign-ins count on the limit of logins', async () => {
  const limited = await startServer({ config: { ...passkeyConfig, 'rate_limit.login': '2/hour' } })
  const statuses = []
  for (const step of ['discover/begin', 'begin', 'discover/begin', 'finish'] as const) {
    const json = { email: 'a@x.test', challenge_id: 'x', assertion_response: {} }
    statuses.push((await limited.call(`POST /api/auth/webauthn/login/${step}`, { json })).status)
  }
  assert.deepEqual(statuses, [200, 200, 429, 429])
  await limited.stop()
})
