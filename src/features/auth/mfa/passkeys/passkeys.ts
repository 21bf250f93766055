import { AppError, badRequest, notFound, unauthorized } from '../../../../core/errors.ts'
import { SYSTEM } from '../../../../core/identity.ts'
import { isUuid } from '../../../../core/uuid.ts'
import type { Db, Tx } from '../../../../db/db.ts'
import type { Sql } from '../../../../db/sql.ts'
import type { Device } from '../../sessions/device.ts'
import type { AuthResponse } from '../../sessions/sessions.ts'
import { ready, verifyAssertion, verifyAttestation } from '../../webauthn/ceremony.ts'
import { newChallenge } from '../../webauthn/challenge.ts'
import { creationOptions, requestOptions, userHandleOf } from '../../webauthn/options.ts'
import type { RelyingParty } from '../../webauthn/relying-party.ts'
import { readAssertion, readAttestation } from '../../webauthn/response.ts'
import * as q from '../../webauthn/sql.ts'
import { challengeNotFound } from '../challenges.ts'
import type { Enroller, Enrolment } from '../enrolment.ts'
import { lockAccount, type Pending, type Verification } from '../verification.ts'

/** Each is offered to the browser at every enrolment and sign-in. */
const MAX_PASSKEYS = 50

export type Passkeys = ReturnType<typeof createPasskeys>

/** Passkeys as second factor: a user has as many as they have devices, and any of them will do. */
export function createPasskeys(deps: {
  db: Db
  enrolment: Enrolment
  verification: Verification
  relyingParty: () => RelyingParty
  notice: (email: string, displayName: string, whatHappened: string) => Sql[]
  wakeMail: () => void
}) {
  const { db, enrolment, verification, relyingParty } = deps

  async function openChallenge(tx: Tx, id: string, userId: string): Promise<q.Challenge> {
    const [found] = isUuid(id) ? await tx.rows<q.Challenge>(q.mfaChallenge(id, userId)) : []
    if (!found) throw challengeNotFound()
    if (found.is_spent) throw new AppError('challenge_used', 'challenge already verified')
    if (found.is_over) throw challengeNotFound()
    return found
  }

  return {
    /** Replaces an enrolment that was begun before. */
    enroll: (user: Enroller) =>
      db.tx(SYSTEM, async (tx) => {
        const { email, phone } = await lockAccount(tx, user.id)
        await enrolment.requireSecondFactor(tx, user)
        const existing = await tx.rows<q.Stored>(q.credentialsOf(user.id))
        if (existing.length >= MAX_PASSKEYS)
          throw new AppError('limit_reached', `too many passkeys: max ${MAX_PASSKEYS}`)
        const pending = newChallenge('enroll')
        await tx.run(q.dropEnrolment(user.id))
        await tx.run(q.insertChallenge(pending, user.id))
        const userName = email || phone || user.id
        return creationOptions(relyingParty(), { challenge: pending.challenge, userId: user.id, userName, existing })
      }),

    /** A response that proves nothing leaves the enrolment as it is. */
    async confirm(user: Enroller, displayName: string, input: unknown): Promise<unknown> {
      const response = readAttestation(input)
      if (!response) throw badRequest('invalid attestation response')
      await ready()
      const credential = await db.tx(SYSTEM, async (tx) => {
        const { email } = await lockAccount(tx, user.id)
        const [pending] = await tx.rows<q.Enrolment>(q.pendingEnrolment(user.id))
        if (!pending) throw notFound('no pending WebAuthn enrollment found', 'enrolment_not_found')
        await enrolment.requireSecondFactor(tx, user)
        const made = await verifyAttestation(relyingParty(), response, pending.challenge)
        if (!made) throw badRequest('WebAuthn enrollment verification failed')
        const [stored] = await tx.rows<{ credential: unknown }>(q.insertCredential(user.id, displayName, made))
        if (!stored) throw new AppError('already_exists', 'credential already registered')
        await tx.run(q.dropEnrolment(user.id))
        for (const mail of deps.notice(email, displayName, 'added')) await tx.run(mail)
        return stored.credential
      })
      deps.wakeMail()
      return credential
    },

    challenge: (userId: string) =>
      verification.prepare(userId, async (tx) => {
        const allowed = await tx.rows<q.Stored>(q.credentialsOf(userId))
        if (allowed.length === 0) throw notFound('no WebAuthn factor enrolled', 'factor_not_found')
        const asked = newChallenge('mfa')
        await tx.run(q.insertChallenge(asked, userId))
        const { id, challenge } = asked
        const options = requestOptions(relyingParty(), { challenge, userVerification: 'preferred', allowed })
        return { challenge_id: id, options }
      }),

    async verify(who: Pending, challengeId: string, input: unknown, device: Device): Promise<AuthResponse> {
      await ready()
      return verification.attempt(who, 'webauthn', device, async (tx) => {
        const failed = unauthorized('WebAuthn assertion failed', 'invalid_credentials')
        const { challenge } = await openChallenge(tx, challengeId, who.id)
        const response = readAssertion(input)
        if (!response) return failed
        const [known] = await tx.rows<{ public_key: string }>(q.publicKeyOf(who.id, response.id))
        if (!known) return failed
        const signCount = await verifyAssertion(relyingParty(), response, {
          challenge,
          publicKey: known.public_key,
          userHandle: userHandleOf(who.id),
          userHandlePresence: 'optional',
          userVerification: 'preferred',
        })
        if (signCount === undefined) return failed
        const [outcome] = await tx.rows<q.Spent>(
          q.spendChallenge(challengeId, { id: response.id, userId: who.id, signCount }),
        )
        return outcome?.counted ? undefined : unauthorized('cloned authenticator detected', 'invalid_credentials')
      })
    },
  }
}
