import assert from 'node:assert/strict'
import { test } from 'node:test'
import { passkeyConfig, signUpWithPasskey } from '../../../test/fakes/passkey.ts'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: passkeyConfig })

test('the operator is told why a passkey was refused, once a minute; the caller is not', async () => {
  const { passkey } = await signUpWithPasskey(api, 'ana@x.test')
  const origin = 'http://localhost:5173'
  const refusals = () => api.observations.filter(({ message }) => message === 'passkey refused')
  for (const lies of [{ origin }, { origin }, { flags: 0x01 }]) {
    const begun = (await api.call('POST /api/auth/webauthn/login/begin', { json: { email: 'ana@x.test' } })).body
    const json = { challenge_id: begun.challenge_id, assertion_response: passkey.get(begun.options, lies) }
    const { status, body, text } = await api.call('POST /api/auth/webauthn/login/finish', { json })
    assert.deepEqual([status, body.message], [401, 'invalid email or passkey'])
    assert.ok(!text.includes('origin'))
  }
  assert.deepEqual(
    refusals().map(({ attrs }) => attrs),
    [{ reason: `origin ${origin} is not among https://app.x.test (auth.webauthn_origins)` }],
  )
})
