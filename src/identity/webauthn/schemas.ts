import * as t from '../../core/json-type.ts'

/** A challenge for an authenticator. */
export const challenge = t.object({
  challenge_id: t.uuid(),
  options: t.record(t.any(), { description: 'PublicKeyCredentialRequestOptions in JSON form' }),
})

/** Its response; all invalid responses get the same error. */
export const assertion = t.object({
  challenge_id: t.string(),
  assertion_response: t.any({ description: 'the PublicKeyCredential in JSON form' }),
})
