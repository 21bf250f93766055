import * as t from '../../core/json-type.ts'

/** What an authenticator is asked. */
export const challenge = t.object({
  challenge_id: t.uuid(),
  options: t.record(t.any(), { description: 'PublicKeyCredentialRequestOptions in JSON form' }),
})

/** What it answers. The ways in which an answer may be wrong are not told apart. */
export const assertion = t.object({
  challenge_id: t.string(),
  assertion_response: t.any({ description: 'the PublicKeyCredential in JSON form' }),
})
