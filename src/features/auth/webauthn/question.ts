import * as t from '../../../core/json-type.ts'

/** A question for an authenticator. */
export const asked = t.object({
  challenge_id: t.uuid(),
  options: t.record(t.any(), { description: 'PublicKeyCredentialRequestOptions in JSON form' }),
})

/** Its answer. What is wrong with it is not told apart. */
export const answered = t.object({
  challenge_id: t.string(),
  assertion_response: t.any({ description: 'the PublicKeyCredential in JSON form' }),
})
