import { AppError, badRequest, notFound, unauthorized } from '../../core/errors.ts'
import { type PendingIdentity, SYSTEM, type UserIdentity } from '../../core/identity.ts'
import { isUuid } from '../../core/uuid.ts'
import type { Db, Tx } from '../../db/db.ts'
import { type EndsSessions, requireOwnFactor, type Verification } from '../../identity/second-factor.ts'
import type { AuthResponse, Device } from '../../identity/session.ts'
import { lockCaller } from '../../identity/users.ts'
import { type OnRefused, ready, verifyAssertion, verifyAttestation } from '../../identity/webauthn/ceremony.ts'
import { creationOptions, newChallenge, requestOptions, userHandleOf } from '../../identity/webauthn/challenge.ts'
import type { RelyingParty } from '../../identity/webauthn/relying-party.ts'
import { readAssertion, readAttestation } from '../../identity/webauthn/response.ts'
import type { PasskeyNotice } from './notices.ts'
import * as q from './webauthn/sql.ts'

/** Bounded, because all are sent to the browser at every enrolment and sign-in. */
const MAX_PASSKEYS = 50

export type PasskeyFactor = ReturnType<typeof createPasskeyFactor>

const challengeNotFound = () => notFound('challenge not found or expired', 'challenge_not_found')

/** Passkeys as second factor; any one of a user's passkeys is enough. */
export function createPasskeyFactor(
  deps: {
    db: Db
    verification: Verification
    relyingParty: () => RelyingParty
    notice: PasskeyNotice
    onRefused: OnRefused
    wakeMail: () => void
  } & EndsSessions,
) {
  const { db, verification, relyingParty } = deps

  async function openChallenge(tx: Tx, id: string, userId: string): Promise<q.ChallengeRow> {
    const [found] = isUuid(id) ? await tx.rows<q.ChallengeRow>(q.mfaChallenge(id, userId)) : []
    if (!found) throw challengeNotFound()
    if (found.is_spent) throw new AppError('challenge_used', 'challenge already verified')
    if (found.is_over) throw challengeNotFound()
    return found
  }

  return {
    /** Replaces a pending enrolment. */
    enroll: (user: UserIdentity) =>
      db.tx(SYSTEM, async (tx) => {
        const { email, phone } = await lockCaller(tx, user)
        await requireOwnFactor(tx, user)
        const existing = await tx.rows<q.StoredPasskey>(q.passkeysOf(user.id))
        if (existing.length >= MAX_PASSKEYS)
          throw new AppError('limit_reached', `too many passkeys: max ${MAX_PASSKEYS}`)
        const pending = newChallenge('enroll')
        await tx.run(q.dropEnrolment(user.id))
        await tx.run(q.insertPasskeyChallenge(pending, user.id))
        const userName = email || phone || user.id
        return creationOptions(relyingParty(), pending, { userId: user.id, userName, existing })
      }),

    /** A response that proves nothing leaves the enrolment as it is. */
    async confirm(user: UserIdentity, displayName: string, input: unknown): Promise<unknown> {
      const response = readAttestation(input)
      if (!response) throw badRequest('invalid attestation response')
      await ready()
      const { credential, ended } = await db.tx(SYSTEM, async (tx) => {
        const { email } = await lockCaller(tx, user)
        const [pending] = await tx.rows<q.PasskeyEnrolment>(q.pendingEnrolment(user.id))
        if (!pending) throw notFound('no pending WebAuthn enrollment found', 'enrolment_not_found')
        const isFirst = await requireOwnFactor(tx, user)
        const made = await verifyAttestation(relyingParty(), response, pending.challenge, deps.onRefused)
        if (!made) throw badRequest('WebAuthn enrollment verification failed')
        const [stored] = await tx.rows<{ credential: unknown }>(q.insertCredential(user.id, displayName, made))
        if (!stored) throw new AppError('already_exists', 'credential already registered')
        await tx.run(q.dropEnrolment(user.id))
        for (const mail of deps.notice(email, displayName, 'added')) await tx.run(mail)
        return { credential: stored.credential, ended: isFirst ? await deps.endOthers(tx, user) : [] }
      })
      deps.onSessionsEnded(ended)
      deps.wakeMail()
      return credential
    },

    challenge: (userId: string) =>
      verification.prepare(userId, async (tx) => {
        const allowed = await tx.rows<q.StoredPasskey>(q.passkeysOf(userId))
        if (allowed.length === 0) throw notFound('no WebAuthn factor enrolled', 'factor_not_found')
        const challenge = newChallenge('mfa')
        await tx.run(q.insertPasskeyChallenge(challenge, userId))
        return requestOptions(relyingParty(), challenge, { userVerification: 'preferred', allowed })
      }),

    async verify(who: PendingIdentity, challengeId: string, input: unknown, device: Device): Promise<AuthResponse> {
      await ready()
      return verification.attempt(who, 'webauthn', device, async (tx) => {
        const failed = unauthorized('WebAuthn assertion failed', 'invalid_credentials')
        const { challenge } = await openChallenge(tx, challengeId, who.id)
        const response = readAssertion(input)
        if (!response) return failed
        const [credential] = await tx.rows<{ public_key: string }>(q.publicKeyOf(who.id, response.id))
        if (!credential) return failed
        const expected = {
          challenge,
          publicKey: credential.public_key,
          userHandle: userHandleOf(who.id),
          userHandlePresence: 'optional',
          userVerification: 'preferred',
        } as const
        const signCount = await verifyAssertion(relyingParty(), response, expected, deps.onRefused)
        if (signCount === undefined) return failed
        const [outcome] = await tx.rows<q.Spent>(
          q.spendPasskeyChallenge(challengeId, { id: response.id, userId: who.id, signCount }),
        )
        return outcome?.counted ? undefined : unauthorized('cloned authenticator detected', 'invalid_credentials')
      })
    },
  }
}
