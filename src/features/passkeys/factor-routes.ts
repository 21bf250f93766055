import { pendingOf, userOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { type Call, json, jsonText, noContentAfter, type Route, route } from '../../http/route.ts'
import { message, signedIn } from '../../identity/responses.ts'
import { enrollerOf } from '../../identity/second-factor.ts'
import { deviceOf } from '../../identity/session.ts'
import { assertion, challenge } from '../../identity/webauthn/schemas.ts'
import { type Credentials, displayNameOf } from './credentials.ts'
import type { PasskeyFactor } from './factor.ts'

const credential = t.object({
  credential_id: t.string({ description: 'base64url' }),
  display_name: t.string(),
  transports: t.array(t.string()),
  created_at: t.time(),
  last_used_at: t.optional(t.time()),
})

const displayName = t.string({ maxLength: 100 })
const credentialId = { credential_id: t.string({ description: 'base64url without padding' }) }

/** Passkeys as second factor, and the management of a user's passkeys. */
export function factorRoutes(deps: {
  passkeys: PasskeyFactor
  credentials: Credentials
  /** Throws while enrolment is switched off; users who have a passkey keep it and still need it. */
  requires: () => void
}): Route[] {
  const { passkeys, credentials, requires } = deps
  const removeAll = {
    summary: 'Remove all passkeys',
    auth: 'user',
    answers: { 204: null },
    handle: ({ who }: Pick<Call, 'who'>) => noContentAfter(credentials.removeAll(userOf(who))),
  } as const

  return [
    route('POST /api/auth/mfa/webauthn/enroll', {
      summary: 'Begin to add a passkey',
      auth: 'user',
      requires,
      bodyKind: 'none',
      answers: { 200: t.record(t.any(), { description: 'PublicKeyCredentialCreationOptions in JSON form' }) },
      handle: async (call) => json(200, await passkeys.enroll(enrollerOf(call.who))),
    }),
    route('POST /api/auth/mfa/webauthn/enroll/confirm', {
      summary: 'Add the passkey that the authenticator made',
      auth: 'user',
      requires,
      limit: 'mfa_verify',
      body: t.object({
        display_name: t.optional(displayName),
        attestation_response: t.record(t.any(), {
          description: 'the PublicKeyCredential in JSON form',
          refusal: 'invalid attestation response',
        }),
      }),
      answers: { 200: t.merged(message, t.object({ credential })) },
      handle: async (call) => {
        const { display_name = '', attestation_response } = call.body
        const made = await passkeys.confirm(enrollerOf(call.who), displayNameOf(display_name), attestation_response)
        return json(200, { message: 'passkey added', credential: made })
      },
    }),
    route('POST /api/auth/mfa/webauthn/challenge', {
      summary: 'Ask for a passkey',
      auth: 'mfa',
      bodyKind: 'none',
      answers: { 200: challenge },
      handle: async ({ who }) => json(200, await passkeys.challenge(pendingOf(who).id)),
    }),
    route('POST /api/auth/mfa/webauthn/verify', {
      summary: 'Answer a challenge; the session becomes aal2',
      auth: 'mfa',
      limit: 'mfa_verify',
      body: assertion,
      answers: { 200: signedIn },
      handle: async (call) => {
        const { challenge_id, assertion_response } = call.body
        return json(200, await passkeys.verify(pendingOf(call.who), challenge_id, assertion_response, deviceOf(call)))
      },
    }),
    route('GET /api/auth/mfa/webauthn/credentials', {
      summary: 'The passkeys of the account, oldest first',
      auth: 'user',
      answers: { 200: t.object({ credentials: t.array(credential) }) },
      handle: async ({ who }) => jsonText(200, await credentials.list(userOf(who).id)),
    }),
    route('PATCH /api/auth/mfa/webauthn/credentials/{credential_id}', {
      summary: 'Rename a passkey',
      auth: 'user',
      params: credentialId,
      body: t.object({ display_name: displayName }),
      answers: { 200: credential },
      handle: async ({ who, params, body }) =>
        json(200, await credentials.rename(userOf(who), params.credential_id, displayNameOf(body.display_name))),
    }),
    route('DELETE /api/auth/mfa/webauthn/credentials/{credential_id}', {
      summary: 'Delete a passkey that is not the last one',
      auth: 'user',
      params: credentialId,
      answers: { 204: null },
      handle: ({ who, params }) => noContentAfter(credentials.remove(userOf(who), params.credential_id)),
    }),
    route('DELETE /api/auth/mfa/webauthn', removeAll),
    route('DELETE /api/auth/mfa/webauthn/', removeAll),
  ]
}
