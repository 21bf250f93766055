import { unauthorized } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import { isUuid } from '../../../core/uuid.ts'
import type { Db } from '../../../db/db.ts'
import { lockAccount } from '../accounts/sql.ts'
import type { Device } from '../sessions/device.ts'
import type { AuthResponse, Sessions } from '../sessions/sessions.ts'
import { verifyAssertion } from '../webauthn/ceremony.ts'
import { newChallenge } from '../webauthn/challenge.ts'
import { Decoy } from '../webauthn/decoy.ts'
import { type Listed, requestOptions, userHandleOf } from '../webauthn/options.ts'
import { makeStrangerKey } from '../webauthn/public-key.ts'
import type { RelyingParty } from '../webauthn/relying-party.ts'
import { readAssertion } from '../webauthn/response.ts'
import * as q from '../webauthn/sql.ts'

export type PasskeySignIn = ReturnType<typeof createPasskeySignIn>

const refused = () => unauthorized('invalid email or passkey', 'invalid_credentials')

/** A passkey that verifies its user is both factors at once, so nothing has to follow it. */
export function createPasskeySignIn(deps: {
  db: Db
  sessions: Sessions
  relyingParty: () => RelyingParty
  decoyKey: Buffer
}) {
  const { db, sessions, relyingParty } = deps
  let strangerKey: string | undefined

  const ask = ({ id, challenge }: { id: string; challenge: string }, allowed?: readonly Listed[]) => ({
    challenge_id: id,
    options: requestOptions(relyingParty(), { challenge, userVerification: 'required', ...(allowed && { allowed }) }),
  })

  return {
    /** Whoever asks about an address without passkey gets one that nobody has. */
    async begin(email: string) {
      const asked = newChallenge('login')
      const decoy = new Decoy(deps.decoyKey, email)
      const begun = await db.fly(SYSTEM, q.insertLoginChallenge(asked, email, decoy.models))
      const { ids, model_bytes: bytes } = JSON.parse(begun ?? '') as q.LoginBegun
      const decoys = [decoy.id(bytes)]
      const offered = ids.length > 0 ? ids : decoys
      return ask(
        asked,
        offered.map((id) => ({ id })),
      )
    },

    /** For whoever types no address: the authenticator says who it is. */
    async beginDiscover() {
      const asked = newChallenge('discover')
      await db.run(SYSTEM, q.insertChallenge(asked, null))
      return ask(asked)
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
      // A decoy is checked as a real one is, handle and signature, so that the time of a refusal tells nothing.
      strangerKey ??= makeStrangerKey()
      const signCount = await verifyAssertion(relyingParty(), response, {
        challenge: found.challenge,
        publicKey: found.public_key ?? strangerKey,
        userHandle: found.user_id === null ? '' : userHandleOf(found.user_id),
        userHandlePresence: kind === 'discover' ? 'required' : 'optional',
        userVerification: 'required',
      })
      const { user_id: userId } = found
      if (signCount === undefined || userId === null) throw refused()

      const answer = await db.tx(SYSTEM, async (tx) => {
        if ((await tx.run(lockAccount(userId))) === 0) return undefined
        const [outcome] = await tx.rows<q.Spent>(q.spendChallenge(challengeId, { id: response.id, userId, signCount }))
        // A clone is refused after the commit, because its challenge is spent.
        if (!outcome?.counted) return undefined
        const signIn = sessions.signIn(userId, ['webauthn'], device)
        return signIn.finish(await tx.fly(signIn.statement))
      })
      if (!answer) throw refused()
      return answer
    },
  }
}
