import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimsOf, firstFactor } from '../../../test/fakes/authenticator.ts'
import {
  addPasskey,
  askPasskey,
  assertionLies,
  Passkey,
  passkeyConfig,
  signInWithBoth,
  signUpWithPasskey,
} from '../../../test/fakes/passkey.ts'
import { spawnServer, startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: passkeyConfig })

const verify = (as: string, challenge_id: string, assertion_response: unknown) =>
  api.call('POST /api/auth/mfa/webauthn/verify', { as, json: { challenge_id, assertion_response } })
const counterOf = async (passkey: Passkey) => {
  const [row] = await api.sql(
    'select sign_count, last_used_at from svc.webauthn_credentials where credential_id = $1',
    [passkey.id],
  )
  return [Number(row.sign_count), row.last_used_at !== null]
}
const forgive = (userId: string) => api.sql('delete from svc.mfa_limits where user_id = $1', [userId])

test('a passkey after the password opens an aal2 session', async () => {
  const { passkey } = await signUpWithPasskey(api, 'w@x.test')
  const as = await firstFactor(api, 'w@x.test')
  const { challenge_id, options } = await askPasskey(api, as)
  assert.deepEqual(
    [options.rpId, options.userVerification, options.allowCredentials],
    ['app.x.test', 'preferred', [{ id: passkey.id, type: 'public-key', transports: ['internal'] }]],
  )
  // A key without a sensor proves presence only, and need not send a user handle.
  const { status, body } = await verify(as, challenge_id, passkey.get(options, { flags: 0x01, userHandle: null }))
  assert.equal(status, 200)
  assert.deepEqual([claimsOf(body.token).aal, claimsOf(body.token).amr], ['aal2', ['password', 'webauthn']])
  assert.deepEqual(await counterOf(passkey), [2, true])
})

test('whatever is wrong with an assertion, it is refused and changes nothing', async () => {
  const { user, passkey } = await signUpWithPasskey(api, 'wrong@x.test')
  const other = await signUpWithPasskey(api, 'other@x.test')
  const as = await firstFactor(api, 'wrong@x.test')
  const { challenge_id, options } = await askPasskey(api, as)
  const before = await counterOf(passkey)
  const refuse = async (name: string, assertion: unknown) => {
    const { status, body } = await verify(as, challenge_id, assertion)
    assert.deepEqual([status, body.message], [401, 'WebAuthn assertion failed'], name)
    await forgive(user.id)
  }
  for (const [name, lie] of Object.entries(assertionLies(other.passkey))) await refuse(name, passkey.get(options, lie))
  await refuse('the credential of another user', other.passkey.get(options))
  const withHandle = other.passkey.get(options, { userHandle: passkey.userHandle })
  await refuse('the credential of another user with the right handle', withHandle)
  const good = passkey.get(options)
  for (const [name, input] of Object.entries({
    'no object': 'text',
    'an empty object': {},
    'an array': [1],
    'a padded signature': { ...good, response: { ...good.response, signature: `${good.response.signature}=` } },
    'a signature of 64 kB': { ...good, response: { ...good.response, signature: 'A'.repeat(65536) } },
    'two ids': { ...good, rawId: 'AAAA' },
    'client data that is no JSON': { ...good, response: { ...good.response, clientDataJSON: 'AAAA' } },
    'another signature': { ...good, response: { ...good.response, signature: 'AAAA' } },
  })) {
    await refuse(name, input)
  }
  assert.deepEqual(await counterOf(passkey), before)
  assert.equal((await verify(as, challenge_id, null)).body.message, 'assertion_response is required')
  assert.equal((await verify(as, '', good)).body.message, 'challenge_id is required')
  // None of it spent the challenge.
  assert.equal((await verify(as, challenge_id, good)).status, 200)
})

test('an assertion is good once, for one challenge', async () => {
  const { passkey } = await signUpWithPasskey(api, 'replay@x.test')
  const as = await firstFactor(api, 'replay@x.test')
  const { challenge_id, options } = await askPasskey(api, as)
  const good = passkey.get(options)
  assert.equal((await verify(as, challenge_id, good)).status, 200)
  const again = await verify(as, challenge_id, good)
  assert.deepEqual([again.status, again.body.message], [409, 'challenge already verified'])
  const next = await firstFactor(api, 'replay@x.test')
  const fresh = await askPasskey(api, next)
  assert.equal((await verify(next, fresh.challenge_id, good)).status, 401)
})

test('challenges of others, of other kinds, over and made up are not found', async () => {
  const { passkey } = await signUpWithPasskey(api, 'found@x.test')
  await signUpWithPasskey(api, 'not-found@x.test')
  const as = await firstFactor(api, 'found@x.test')
  const theirs = await askPasskey(api, await firstFactor(api, 'not-found@x.test'))
  const login = await api.call('POST /api/auth/webauthn/login/begin', { json: { email: 'found@x.test' } })
  const over = await askPasskey(api, as)
  await api.sql('update svc.webauthn_challenges set expires_at = now() where id = $1', [over.challenge_id])
  for (const { challenge_id, options } of [theirs, login.body, over, { ...over, challenge_id: 'x' }]) {
    const { status, body } = await verify(as, challenge_id, passkey.get(options))
    assert.deepEqual([status, body.message], [404, 'challenge not found or expired'])
  }
})

test('a counter that does not move on is a clone: refused, unchanged, and its challenge is spent', async () => {
  const { user, passkey } = await signUpWithPasskey(api, 'clone@x.test')
  await signInWithBoth(api, 'clone@x.test', passkey)
  const before = await counterOf(passkey)
  assert.equal(before[0], 2)
  for (const counter of [2, 1, 0]) {
    const as = await firstFactor(api, 'clone@x.test')
    const { challenge_id, options } = await askPasskey(api, as)
    const { status, body } = await verify(as, challenge_id, passkey.get(options, { counter }))
    assert.deepEqual([status, body.message], [401, 'cloned authenticator detected'])
    assert.equal((await counterOf(passkey))[0], 2)
    assert.equal((await verify(as, challenge_id, passkey.get(options, { counter: 99 }))).status, 409)
  }
  await forgive(user.id)
  passkey.counter = 4_294_967_294
  await signInWithBoth(api, 'clone@x.test', passkey)
  assert.equal((await counterOf(passkey))[0], 4_294_967_295)
})

test('authenticators that do not count always say zero, and that is fine', async () => {
  const { passkey } = await signUpWithPasskey(api, 'zero@x.test', new Passkey({ counts: false }))
  await signInWithBoth(api, 'zero@x.test', passkey)
  await signInWithBoth(api, 'zero@x.test', passkey)
  assert.deepEqual(await counterOf(passkey), [0, true])
})

test('wrong passkeys count towards the lockout of all methods', async () => {
  const { passkey } = await signUpWithPasskey(api, 'locked@x.test')
  const as = await firstFactor(api, 'locked@x.test')
  const { challenge_id, options } = await askPasskey(api, as)
  const lie = passkey.get(options, { origin: 'https://evil.test' })
  const answers = await Promise.all(Array.from({ length: 15 }, () => verify(as, challenge_id, lie)))
  assert.deepEqual(
    answers.map(({ status }) => status),
    Array(15).fill(401),
  )
  const locked = await verify(as, challenge_id, passkey.get(options))
  assert.deepEqual([locked.status, locked.body.message], [429, 'too many failed attempts, try again later'])
  assert.ok(Number(locked.headers.get('retry-after')) > 0)
  const fresh = await firstFactor(api, 'locked@x.test')
  assert.equal((await api.call('POST /api/auth/mfa/webauthn/challenge', { as: fresh })).status, 429)
  // The owner can still sign in with the passkey alone.
  const login = await api.call('POST /api/auth/webauthn/login/begin', { json: { email: 'locked@x.test' } })
  const json = { challenge_id: login.body.challenge_id, assertion_response: passkey.get(login.body.options) }
  assert.equal((await api.call('POST /api/auth/webauthn/login/finish', { json })).status, 200)
})

test('who has no passkey is not asked for one, and a normal token asks for nothing', async () => {
  const { token } = await api.signUp('none@x.test')
  const { status, body } = await api.call('POST /api/auth/mfa/webauthn/challenge', { as: token })
  assert.deepEqual([status, body.message], [401, 'no MFA challenge pending'])
})

test('each challenge raced twenty times over two processes succeeds exactly once', async () => {
  const [first, second] = await Promise.all([
    spawnServer({ on: api, config: passkeyConfig }),
    spawnServer({ on: api, config: passkeyConfig }),
  ])
  const { token, user, passkey } = await signUpWithPasskey(first, 'race@x.test')
  const race = async (line: `POST /${string}`, json: object, as?: string) => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => [first, second][i % 2]?.call(line, { json, ...(as && { as }) })),
    )
    return answers.map((answer) => answer?.status ?? 0).toSorted()
  }

  const as = await firstFactor(api, 'race@x.test')
  const mfa = await askPasskey(api, as)
  const mfaAnswer = { challenge_id: mfa.challenge_id, assertion_response: passkey.get(mfa.options) }
  assert.deepEqual(await race('POST /api/auth/mfa/webauthn/verify', mfaAnswer, as), [200, ...Array(19).fill(409)])

  for (const way of ['login', 'login/discover'] as const) {
    const { body } = await api.call(`POST /api/auth/webauthn/${way}/begin`, { json: { email: 'race@x.test' } })
    const json = { challenge_id: body.challenge_id, assertion_response: passkey.get(body.options) }
    const outcome = await race(`POST /api/auth/webauthn/${way}/finish`, json)
    assert.deepEqual(outcome, [200, ...Array(19).fill(401)], way)
  }

  const { token: strong } = await signInWithBoth(api, 'race@x.test', passkey)
  const { body: options } = await api.call('POST /api/auth/mfa/webauthn/enroll', { as: strong })
  const json = { attestation_response: new Passkey().create(options) }
  const outcome = await race('POST /api/auth/mfa/webauthn/enroll/confirm', json, strong)
  assert.deepEqual(outcome, [200, ...Array(19).fill(404)])
  const [{ count }] = await api.sql('select count(*) from svc.webauthn_credentials where user_id = $1', [user.id])
  assert.equal(Number(count), 2)
  const sessions = await api.call('GET /api/auth/sessions', { as: token })
  assert.equal(sessions.body.length, 5)
  await addPasskey(second, strong, new Passkey())
  await Promise.all([first.stop(), second.stop()])
})
