import assert from 'node:assert/strict'
import { test } from 'node:test'
import { authenticator, signUpWithTotp } from '../../../test/fakes/authenticator.ts'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import {
  type Algorithm,
  addPasskey,
  keyPair,
  type Lies,
  Passkey,
  passkeyConfig,
  signInWithBoth,
  signUpWithPasskey,
} from '../../../test/fakes/passkey.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({
  config: {
    ...passkeyConfig,
    'auth.totp_enabled': true,
    'auth.anonymous_auth_enabled': true,
    'auth.webauthn_origins': ['https://shop.app.x.test', 'android:apk-key-hash:abc_-123'],
  },
})

const enroll = (as: string) => api.call('POST /api/auth/mfa/webauthn/enroll', { as })
const confirm = (as: string, json: object) => api.call('POST /api/auth/mfa/webauthn/enroll/confirm', { as, json })
const stored = async (userId: string) =>
  (await api.sql('select credential_id from svc.webauthn_credentials where user_id = $1', [userId])).length

test('enrolment asks for a passkey that stays on the device, and offers what exists', async () => {
  const { token, user } = await api.signUp('shape@x.test')
  const { status, body } = await enroll(token)
  assert.equal(status, 200)
  assert.deepEqual(body.rp, { id: 'app.x.test', name: 'Savanna' })
  assert.equal(body.user.name, 'shape@x.test')
  assert.equal(Buffer.from(body.user.id, 'base64url').toString('hex'), user.id.replaceAll('-', ''))
  assert.deepEqual(body.authenticatorSelection, {
    residentKey: 'required',
    requireResidentKey: true,
    userVerification: 'preferred',
  })
  assert.equal(body.attestation, 'none')
  assert.ok(Buffer.from(body.challenge, 'base64url').length >= 16)
  assert.match(JSON.stringify(body), /^[^=]*$/)
  assert.deepEqual(body.excludeCredentials, [])
})

for (const algorithm of ['ES256', 'EdDSA', 'RS256'] as Algorithm[]) {
  test(`${algorithm} passkeys are added and sign in, as second factor and alone`, async () => {
    const passkey = new Passkey({ algorithm })
    const { token } = await api.signUp(`${algorithm.toLowerCase()}@x.test`)
    const credential = await addPasskey(api, token, passkey, ' my phone ')
    assert.equal(credential.credential_id, passkey.id)
    assert.equal(credential.display_name, 'my phone')
    assert.deepEqual(credential.transports, ['internal'])
    assert.equal('last_used_at' in credential, false)
    const email = `${algorithm.toLowerCase()}@x.test`
    await signInWithBoth(api, email, passkey)
    for (const way of ['login', 'login/discover'] as const) {
      const { body } = await api.call(`POST /api/auth/webauthn/${way}/begin`, { json: { email } })
      const json = { challenge_id: body.challenge_id, assertion_response: passkey.get(body.options) }
      assert.equal((await api.call(`POST /api/auth/webauthn/${way}/finish`, { json })).body.user.email, email)
    }
    const list = await api.call('GET /api/auth/mfa/webauthn/credentials', { as: token })
    assert.equal(list.body.credentials.length, 1)
    assert.match(list.body.credentials[0].last_used_at, /Z$/)
  })
}

test('a second passkey needs the first, and the list of what exists goes with the options', async () => {
  const { token, user, passkey } = await signUpWithPasskey(api, 'two@x.test')
  const refused = await enroll(token)
  assert.equal(refused.status, 403)
  assert.equal(refused.body.data.aal.code, 'insufficient_aal')
  const { token: strong } = await signInWithBoth(api, 'two@x.test', passkey)
  const { body: options } = await enroll(strong)
  assert.deepEqual(
    options.excludeCredentials.map((one: { id: string }) => one.id),
    [passkey.id],
  )
  assert.equal((await confirm(token, { attestation_response: new Passkey().create(options) })).status, 403)
  assert.equal((await confirm(strong, { attestation_response: new Passkey().create(options) })).status, 200)
  assert.equal(await stored(user.id), 2)
  const factors = await api.call('GET /api/auth/mfa/factors', { as: strong })
  assert.deepEqual([factors.body.webauthn, factors.body.factors], [2, []])
})

test('an enrolment begun before the first factor cannot be confirmed by a stolen password', async () => {
  const { token } = await api.signUp('before@x.test')
  const { body: options } = await enroll(token)
  const { body } = await api.call('POST /api/auth/mfa/totp/enroll', { as: token })
  await api.call('POST /api/auth/mfa/totp/enroll/confirm', {
    as: token,
    json: { code: authenticator(body.uri).code() },
  })
  assert.equal((await confirm(token, { attestation_response: new Passkey().create(options) })).status, 403)
})

const lies: Record<string, Lies> = {
  'another origin': { origin: 'https://evil.test' },
  'the origin with a port': { origin: 'https://app.x.test:444' },
  'an origin that was not configured': { origin: 'https://other.app.x.test' },
  'another relying party': { rpId: 'x.test' },
  'the type of a sign-in': { type: 'webauthn.get' },
  'another challenge': { challenge: 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' },
  'a frame of another site': { crossOrigin: true },
  'the top origin of another site': { topOrigin: 'https://evil.test' },
  'nobody present': { flags: 0x44 },
  'no attested data': { flags: 0x05 },
  'a backup of what cannot be backed up': { flags: 0x55 },
  'another id than the authenticator made': { id: 'AAAAAAAAAAAAAAAAAAAAAA' },
  'truncated data': { bytes: (bytes) => bytes.subarray(0, 80) },
  'bytes behind the data': { bytes: (bytes) => Buffer.concat([bytes, Buffer.alloc(9)]) },
  'a truncated object': { object: (bytes) => bytes.subarray(0, bytes.length - 20) },
  'bytes behind the object': { object: (bytes) => Buffer.concat([bytes, Buffer.alloc(4)]) },
  'an object that is not CBOR': { object: () => Buffer.from('hello') },
  'a nest of arrays': { object: () => Buffer.alloc(6000, 0x81) },
  'a map of a million': { object: () => Buffer.from('ba000f4240', 'hex') },
  'a statement that was not asked for': { format: { fmt: 'packed', attStmt: new Map([['x5c', [Buffer.alloc(8)]]]) } },
  'a statement of an unknown kind': { format: { fmt: 'mine', attStmt: new Map() } },
  'a statement where none is said to be': { format: { fmt: 'none', attStmt: new Map([['alg', -7]]) } },
  'an algorithm that was not offered': { cose: new Map([...keyPair('ES256').cose, [3, -47]]) },
  'the algorithm of another kind of key': { cose: new Map([...keyPair('ES256').cose, [3, -257]]) },
  'a point that is not on the curve': { cose: new Map([...keyPair('ES256').cose, [-3, Buffer.alloc(32, 1)]]) },
  'a key without its second half': {
    cose: new Map([...keyPair('ES256').cose].filter(([label]) => label !== -3)),
  },
  'an RSA key that can be factored': { cose: keyPair('RS256', 512).cose },
  'a key that is no map': { cose: [1, 2, 3] },
}

test('whatever is wrong with an attestation, nothing is stored and the enrolment goes on', async () => {
  const { token, user } = await api.signUp('liar@x.test')
  const { body: options } = await enroll(token)
  for (const [name, lie] of Object.entries(lies)) {
    const { status, body } = await confirm(token, { attestation_response: new Passkey().create(options, lie) })
    assert.deepEqual([status, body.message], [400, 'WebAuthn enrollment verification failed'], name)
  }
  assert.equal(await stored(user.id), 0)
  const good = new Passkey().create(options)
  for (const [name, input] of Object.entries({
    'no object': 'text',
    'an array': [],
    'nothing in it': {},
    'a padded id': { ...good, id: `${good.id}=`, rawId: `${good.id}=` },
    'two ids': { ...good, rawId: 'AAAA' },
    'another type': { ...good, type: 'password' },
    'a number for data': { ...good, response: { ...good.response, clientDataJSON: 7 } },
    'an object of 64 kB': { ...good, response: { ...good.response, attestationObject: 'A'.repeat(65536) } },
    'an id of 5 kB': new Passkey({ idBytes: 5000 }).create(options),
    'an id of 1024 bytes': new Passkey({ idBytes: 1024 }).create(options),
  })) {
    const { status, body } = await confirm(token, { attestation_response: input })
    assert.deepEqual([status, body.message], [400, 'invalid attestation response'], name)
  }
  assert.equal((await confirm(token, {})).body.message, 'attestation_response is required')
  assert.equal((await confirm(token, { attestation_response: null })).body.message, 'attestation_response is required')
  assert.equal(await stored(user.id), 0)
  assert.equal((await confirm(token, { attestation_response: good })).status, 200)
  assert.deepEqual(
    (await confirm(token, { attestation_response: good })).body.message,
    'no pending WebAuthn enrollment found',
  )
})

test('the longest id that is allowed and every configured origin are fine', async () => {
  const { token } = await api.signUp('long@x.test')
  await addPasskey(api, token, new Passkey({ idBytes: 1023 }))
  for (const origin of ['https://shop.app.x.test', 'android:apk-key-hash:abc_-123']) {
    const one = await api.signUp(`${origin.length}@x.test`)
    const { body: options } = await enroll(one.token)
    assert.equal(
      (await confirm(one.token, { attestation_response: new Passkey().create(options, { origin }) })).status,
      200,
    )
  }
})

test('browsers learn which pages of other domains may use the passkeys', async () => {
  const { status, body } = await api.call('GET /.well-known/webauthn')
  assert.deepEqual([status, body], [200, { origins: ['https://app.x.test', 'https://shop.app.x.test'] }])
})

test('a credential belongs to one account', async () => {
  const { passkey } = await signUpWithPasskey(api, 'first@x.test')
  const { token } = await api.signUp('second@x.test')
  const { body: options } = await enroll(token)
  const { status, body } = await confirm(token, { attestation_response: passkey.create(options) })
  assert.deepEqual([status, body.message], [409, 'credential already registered'])
})

test('a new enrolment replaces the one begun before, and one that is over is none', async () => {
  const { token, user } = await api.signUp('again@x.test')
  const { body: first } = await enroll(token)
  const { body: second } = await enroll(token)
  assert.equal((await confirm(token, { attestation_response: new Passkey().create(first) })).status, 400)
  await api.sql(`update svc.webauthn_challenges set expires_at = now() where user_id = $1`, [user.id])
  assert.equal((await confirm(token, { attestation_response: new Passkey().create(second) })).status, 404)
})

test('who may not enrol', async () => {
  const { body: anonymous } = await api.call('POST /api/auth/anonymous')
  const refused = await enroll(anonymous.token)
  assert.deepEqual([refused.status, refused.body.message], [403, 'link your account before enabling MFA'])
  assert.equal((await api.call('POST /api/auth/mfa/webauthn/enroll')).status, 401)
  const { token } = await signUpWithTotp(api, 'totp-first@x.test')
  assert.equal((await enroll(token)).status, 403)
})

test('a name is one short line', async () => {
  const { token, user } = await api.signUp('names@x.test')
  const { body: options } = await enroll(token)
  const attestation_response = new Passkey().create(options)
  for (const display_name of ['x'.repeat(101), 'a\nb', 'a\r\nlevel=error fake', 'a\u0000b', 'a\u009bb', 7, {}]) {
    assert.equal(
      (await confirm(token, { display_name, attestation_response })).status,
      400,
      String(display_name).slice(0, 9),
    )
  }
  assert.equal(await stored(user.id), 0)
  const display_name = '<script>alert(1)</script> \u202e'
  const { body } = await confirm(token, { display_name, attestation_response })
  assert.equal(body.credential.display_name, display_name.trim())
})

test('adding a passkey is told by mail', async () => {
  await signUpWithPasskey(api, 'told@x.test')
  const mail = mailbox(api)
  await eventually(() => {
    const [notice] = mail.mails('told@x.test').filter(({ subject }) => subject === 'Security notice')
    assert.match(notice?.text ?? '', /The passkey “phone” of your Savanna account was added/)
  })
})

test('while switched off nothing is enrolled, and what exists keeps working', async () => {
  const { passkey } = await signUpWithPasskey(api, 'switch@x.test')
  const off = await startServer({ on: api, config: { ...passkeyConfig, 'auth.webauthn_enabled': false } })
  const { token } = await signInWithBoth(off, 'switch@x.test', passkey)
  for (const step of ['enroll', 'enroll/confirm'] as const) {
    const { status, body } = await off.call(`POST /api/auth/mfa/webauthn/${step}`, { as: token, json: {} })
    assert.deepEqual([status, body.message], [404, 'WebAuthn MFA is not enabled'])
  }
  await off.stop()
})
