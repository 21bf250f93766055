import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signInWithTotp, signUpWithTotp } from '../../../test/fakes/authenticator.ts'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { addPasskey, Passkey, passkeyConfig, signInWithBoth, signUpWithPasskey } from '../../../test/fakes/passkey.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { ...passkeyConfig, 'auth.totp_enabled': true } })
const other = await startServer({ on: api, config: passkeyConfig })

const PATH = '/api/auth/mfa/webauthn'
const list = async (as: string) => (await api.call(`GET ${PATH}/credentials`, { as })).body.credentials
const rename = (as: string, id: string, display_name: unknown) =>
  api.call(`PATCH ${PATH}/credentials/${id}`, { as, json: { display_name } })
const remove = (as: string, id: string) => api.call(`DELETE ${PATH}/credentials/${id}`, { as })

/** A user with two passkeys, signed in with both factors. */
async function strongUser(email: string) {
  const { passkey, token: weak, user } = await signUpWithPasskey(api, email)
  const { token } = await signInWithBoth(api, email, passkey)
  const second = new Passkey()
  await addPasskey(api, token, second, 'laptop')
  return { weak, token, user, passkey, second }
}

test('passkeys are listed, renamed and deleted, and mails tell it', async () => {
  const { token, passkey, second } = await strongUser('all@x.test')
  const names = async () => (await list(token)).map((one: { display_name: string }) => one.display_name)
  assert.deepEqual(await names(), ['phone', 'laptop'])
  const renamed = await rename(token, passkey.id, '  my phone ')
  assert.deepEqual(
    [renamed.status, renamed.body.display_name, renamed.body.credential_id],
    [200, 'my phone', passkey.id],
  )
  assert.deepEqual(await names(), ['my phone', 'laptop'])
  assert.equal((await remove(token, second.id)).status, 204)
  assert.deepEqual(await names(), ['my phone'])
  const last = await remove(token, passkey.id)
  assert.deepEqual([last.status, last.body.message], [403, 'cannot delete final WebAuthn credential'])
  assert.deepEqual(await names(), ['my phone'])
  const mail = mailbox(api)
  await eventually(() => {
    const told = mail.mails('all@x.test').map(({ text }) => text.replaceAll('\n', ' '))
    for (const sentence of [
      '“phone” of your Savanna account was added',
      '“my phone” of your Savanna account was renamed',
      '“laptop” of your Savanna account was deleted',
    ]) {
      assert.ok(
        told.some((text) => text.includes(sentence)),
        sentence,
      )
    }
  })
})

test('a password alone changes nothing', async () => {
  const { weak, passkey, second } = await strongUser('weak@x.test')
  for (const { status, body } of [
    await rename(weak, passkey.id, 'x'),
    await remove(weak, second.id),
    await api.call(`DELETE ${PATH}/`, { as: weak }),
  ]) {
    assert.deepEqual([status, body.message], [403, 'insufficient authentication assurance level: aal2 required'])
  }
  assert.equal((await list(weak)).length, 2)
})

test('ids that cannot be, are unknown or belong to others', async () => {
  const { token, passkey } = await strongUser('ids@x.test')
  const theirs = await strongUser('theirs@x.test')
  for (const id of [`${passkey.id}=`, 'a+b', 'a%2Fb', '%00', 'é', 'AAB', 'A'.repeat(1400)]) {
    for (const { status, body } of [await rename(token, id, 'x'), await remove(token, id)]) {
      assert.equal(status, 400, id)
      if (id !== '%00') assert.equal(body.message, 'invalid credential_id', id)
    }
  }
  for (const id of [theirs.passkey.id, 'AAAA']) {
    for (const { status, body } of [await rename(token, id, 'x'), await remove(token, id)]) {
      assert.deepEqual([status, body.message], [404, 'WebAuthn credential not found'])
    }
  }
  assert.equal((await list(theirs.token)).length, 2)
})

test('a new name is one short line', async () => {
  const { token, passkey } = await strongUser('names@x.test')
  for (const name of ['', '   ', null, undefined]) {
    const { status, body } = await rename(token, passkey.id, name)
    assert.deepEqual([status, body.message], [400, 'display_name is required'])
  }
  for (const name of ['x'.repeat(101), 'a\nb', 'a\u0000b', 7]) {
    assert.equal((await rename(token, passkey.id, name)).status, 400)
  }
})

test('of two parallel deletions of the last two passkeys one is refused', async () => {
  const { token, passkey, second } = await strongUser('parallel@x.test')
  const answers = await Promise.all([passkey, second].map(({ id }) => remove(token, id)))
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [204, 403])
  assert.equal((await list(token)).length, 1)
})

test('removing the last factor ends all other sessions on every server, and the current one keeps its level', async () => {
  const { weak, token } = await strongUser('last@x.test')
  assert.equal((await other.call('GET /api/auth/me', { as: weak })).status, 200)
  const { status } = await api.call(`DELETE ${PATH}/`, { as: token })
  assert.equal(status, 204)
  assert.equal((await api.call('GET /api/auth/me', { as: weak })).status, 401)
  await eventually(async () => assert.equal((await other.call('GET /api/auth/me', { as: weak })).status, 401))
  assert.equal((await api.call('POST /api/auth/mfa/backup/generate', { as: token })).status, 200)
  const again = await api.call(`DELETE ${PATH}`, { as: token })
  assert.deepEqual([again.status, again.body.message], [404, 'no WebAuthn factor enrolled'])
  const login = await api.call('POST /api/auth/login', {
    json: { email: 'last@x.test', password: 'long enough password' },
  })
  assert.ok(login.body.token)
})

test('removing passkeys beside another factor ends nothing', async () => {
  const { token, user, app } = await signUpWithTotp(api, 'beside@x.test')
  const strong = await signInWithTotp(api, 'beside@x.test', user.id, app)
  await addPasskey(api, strong.token, new Passkey())
  assert.equal((await api.call(`DELETE ${PATH}`, { as: strong.token })).status, 204)
  assert.equal((await api.call('GET /api/auth/me', { as: token })).status, 200)
})

test('the first proof of an address by somebody else drops the passkeys of whoever registered it', async () => {
  const { user, passkey } = await signUpWithPasskey(api, 'victim@x.test')
  const mail = mailbox(api)
  await api.call('POST /api/auth/password-reset', { json: { email: 'victim@x.test' } })
  await eventually(() =>
    assert.ok(mail.mails('victim@x.test').some(({ subject }) => subject === 'Reset your password')),
  )
  const reset = mail.mails('victim@x.test').find(({ subject }) => subject === 'Reset your password')
  const token = /token=([\w-]+)/.exec(reset?.text ?? '')?.[1] ?? ''
  const json = { token, password: 'the owner chose this' }
  assert.equal((await api.call('POST /api/auth/password-reset/confirm', { json })).status, 204)
  const { body } = await api.call('POST /api/auth/webauthn/login/discover/begin')
  const finish = { challenge_id: body.challenge_id, assertion_response: passkey.get(body.options) }
  assert.equal((await api.call('POST /api/auth/webauthn/login/discover/finish', { json: finish })).status, 401)
  const left = await api.sql('select 1 from svc.webauthn_credentials where user_id = $1', [user.id])
  assert.equal(left.length, 0)
})

test('an account that is deleted takes its passkeys with it', async () => {
  const { passkey, user } = await signUpWithPasskey(api, 'gone@x.test')
  const { token } = await signInWithBoth(api, 'gone@x.test', passkey)
  assert.equal((await api.call('DELETE /api/auth/me', { as: token })).status, 204)
  assert.equal((await api.sql('select 1 from svc.webauthn_credentials where user_id = $1', [user.id])).length, 0)
})
