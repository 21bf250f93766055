import { emailOf } from '../../../core/contact/email-address.ts'
import { notFound } from '../../../core/errors.ts'
import * as t from '../../../core/json-type.ts'
import { json, type Route, route } from '../../../http/route.ts'
import { signedIn } from '../answers.ts'
import { deviceOf } from '../sessions/device.ts'
import type { AuthSettings } from '../settings.ts'
import { answered, asked } from '../webauthn/question.ts'
import type { RelyingParty } from '../webauthn/relying-party.ts'
import type { PasskeySignIn } from './passkey.ts'

/** Sign-in with a passkey alone: for an address, or for whoever the authenticator says. */
export function passkeyRoutes(deps: {
  passkeys: PasskeySignIn
  settings: () => AuthSettings
  relyingParty: () => RelyingParty
}): Route[] {
  const { passkeys } = deps
  const requires = (): void => {
    if (!deps.settings().webauthn_enabled) throw notFound('WebAuthn is not enabled', 'feature_disabled')
  }
  return [
    // WebAuthn §5.11.1 of the third level: how browsers learn that pages of other domains may use these passkeys.
    route('GET /.well-known/webauthn', {
      summary: 'Origins that may use the passkeys of this server',
      auth: 'none',
      requires,
      answers: { 200: t.object({ origins: t.array(t.string()) }) },
      handle: () => json(200, { origins: deps.relyingParty().origins.filter((origin) => origin.startsWith('http')) }),
    }),
    route('POST /api/auth/webauthn/login/begin', {
      summary: 'Ask for a passkey of an address, known or not',
      auth: 'none',
      limit: 'login',
      requires,
      body: t.object({ email: t.string({ format: 'email' }) }),
      answers: { 200: asked },
      handle: async ({ body }) => json(200, await passkeys.begin(emailOf(body.email))),
    }),
    route('POST /api/auth/webauthn/login/finish', {
      summary: 'Sign in with a passkey',
      auth: 'none',
      limit: 'login',
      requires,
      body: answered,
      answers: { 200: signedIn },
      handle: async (call) => {
        const { challenge_id, assertion_response } = call.body
        return json(200, await passkeys.finish('login', challenge_id, assertion_response, deviceOf(call)))
      },
    }),
    route('POST /api/auth/webauthn/login/discover/begin', {
      summary: 'Ask for any passkey of this server',
      auth: 'none',
      limit: 'login',
      requires,
      bodyKind: 'none',
      answers: { 200: asked },
      handle: async () => json(200, await passkeys.beginDiscover()),
    }),
    route('POST /api/auth/webauthn/login/discover/finish', {
      summary: 'Sign in with a passkey that says whose it is',
      auth: 'none',
      limit: 'login',
      requires,
      body: answered,
      answers: { 200: signedIn },
      handle: async (call) => {
        const { challenge_id, assertion_response } = call.body
        return json(200, await passkeys.finish('discover', challenge_id, assertion_response, deviceOf(call)))
      },
    }),
  ]
}
