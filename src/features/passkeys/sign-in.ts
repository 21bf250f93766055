import { unauthorized } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { isUuid } from '../../core/uuid.ts'
import type { Db } from '../../db/db.ts'
import type { AuthResponse, Device, StartSession } from '../../identity/session.ts'
import { lockAccount } from '../../identity/users.ts'
import { type OnRefused, verifyAssertion } from '../../identity/webauthn/ceremony.ts'
import { newChallenge, requestOptions, userHandleOf } from '../../identity/webauthn/challenge.ts'
import { makeDecoyKey } from '../../identity/webauthn/public-key.ts'
import type { RelyingParty } from '../../identity/webauthn/relying-party.ts'
import { readAssertion } from '../../identity/webauthn/response.ts'
import { Decoy } from './webauthn/decoy.ts'
import * as q from './webauthn/sql.ts'

export type PasskeySignIn = ReturnType<typeof createPasskeySignIn>

const refused = () => unauthorized('invalid email or passkey', 'invalid_credentials')

/** A passkey that verifies its user is both factors at once, so no further factor is required. */
export function createPasskeySignIn(deps: {
  db: Db
  startSession: StartSession
  relyingParty: () => RelyingParty
  decoyKey: Buffer
  onRefused: OnRefused
}) {
  const { db, relyingParty } = deps
  let decoyPublicKey: string | undefined

  return {
    /** For an address without passkeys the challenge lists a decoy. */
    async begin(email: string) {
      const challenge = newChallenge('login')
      const decoy = new Decoy(deps.decoyKey, email)
      const begun = await db.fly(SYSTEM, q.insertLoginChallenge(challenge, email, decoy.models))
      const { ids, model_bytes: bytes } = JSON.parse(begun ?? '') as q.LoginBegun
      const decoys = [decoy.id(bytes)]
      const allowed = (ids.length > 0 ? ids : decoys).map((id) => ({ id }))
      return requestOptions(relyingParty(), challenge, { userVerification: 'required', allowed })
    },

    /** Without an address: the authenticator says whose passkey it is. */
    async beginDiscover() {
      const challenge = newChallenge('discover')
      await db.run(SYSTEM, q.insertPasskeyChallenge(challenge, null))
      return requestOptions(relyingParty(), challenge, { userVerification: 'required' })
    },

    async finish(
      kind: 'login' | 'discover',
      challengeId: string,
      input: unknown,
      device: Device,
    ): Promise<AuthResponse> {
      const response = readAssertion(input)
      if (!response || !isUuid(challengeId)) throw refused()
      const [found] = await db.rows<q.SignIn>(SYSTEM, q.signInChallenge(challengeId, kind, response.id))
      if (!found) throw refused()
      // A decoy is verified like a real passkey, so that the time of a refusal reveals nothing.
      decoyPublicKey ??= makeDecoyKey()
      const expected = {
        challenge: found.challenge,
        publicKey: found.public_key ?? decoyPublicKey,
        userHandle: found.user_id === null ? '' : userHandleOf(found.user_id),
        userHandlePresence: kind === 'discover' ? 'required' : 'optional',
        userVerification: 'required',
      } as const
      const signCount = await verifyAssertion(relyingParty(), response, expected, deps.onRefused)
      const { user_id: userId } = found
      if (signCount === undefined || userId === null) throw refused()

      const answer = await db.tx(SYSTEM, async (tx) => {
        await lockAccount(tx, userId, refused)
        const [outcome] = await tx.rows<q.Spent>(
          q.spendPasskeyChallenge(challengeId, { id: response.id, userId, signCount }),
        )
        // A cloned authenticator is refused after the commit, so that its challenge stays spent.
        if (!outcome?.counted) return undefined
        return deps.startSession(userId, ['webauthn'], device).open(tx, refused)
      })
      if (!answer) throw refused()
      return answer()
    },
  }
}
