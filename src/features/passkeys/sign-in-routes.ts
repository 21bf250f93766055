import { emailOf } from '../../core/contact/email-address.ts'
import * as t from '../../core/json-type.ts'
import { type Call, json, type Route, route } from '../../http/route.ts'
import { signedIn } from '../../identity/responses.ts'
import { deviceOf } from '../../identity/session.ts'
import type { RelyingParty } from '../../identity/webauthn/relying-party.ts'
import { assertion, challenge } from '../../identity/webauthn/schemas.ts'
import type { PasskeySignIn } from './sign-in.ts'

/** Sign-in with a passkey alone: for an address, or for the user whom the authenticator names. */
export function signInRoutes(deps: {
  passkeys: PasskeySignIn
  /** Throws while passkeys are switched off. */
  requires: () => void
  relyingParty: () => RelyingParty
}): Route[] {
  const { passkeys, requires } = deps
  const finish = (kind: 'login' | 'discover', summary: string) => ({
    summary,
    auth: 'none' as const,
    limit: 'login',
    requires,
    body: assertion,
    answers: { 200: signedIn },
    handle: async (call: Call<t.TypeOf<typeof assertion>>) => {
      const { challenge_id, assertion_response } = call.body
      return json(200, await passkeys.finish(kind, challenge_id, assertion_response, deviceOf(call)))
    },
  })
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
      answers: { 200: challenge },
      handle: async ({ body }) => json(200, await passkeys.begin(emailOf(body.email))),
    }),
    route('POST /api/auth/webauthn/login/finish', finish('login', 'Sign in with a passkey')),
    route('POST /api/auth/webauthn/login/discover/begin', {
      summary: 'Ask for any passkey of this server',
      auth: 'none',
      limit: 'login',
      requires,
      bodyKind: 'none',
      answers: { 200: challenge },
      handle: async () => json(200, await passkeys.beginDiscover()),
    }),
    route(
      'POST /api/auth/webauthn/login/discover/finish',
      finish('discover', 'Sign in with a passkey that says whose it is'),
    ),
  ]
}
