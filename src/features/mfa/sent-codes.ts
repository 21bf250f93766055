import { randomUUID } from 'node:crypto'
import { type AppError, badRequest } from '../../core/errors.ts'
import type { PendingIdentity, UserIdentity } from '../../core/identity.ts'
import { equalInConstantTime, hmacSha256, randomDigits } from '../../core/secret.ts'
import type { Tx } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { tooManyMessages } from '../../identity/errors.ts'
import type { Verification } from '../../identity/second-factor.ts'
import type { AuthResponse, Device } from '../../identity/session.ts'
import { openChallenge, requireFactor } from './challenges.ts'
import type { Enrolment } from './enrolment.ts'
import * as q from './sql.ts'

export type CodePurpose = 'challenge' | 'enrolment'

/** The differences between codes by mail and codes by SMS. */
export type CodeChannel = {
  method: 'email' | 'sms'
  digits: number
  /** Lifetime of a code, and the allowed wrong guesses. */
  seconds: number
  maxWrong: number
  /** The fixed code of a test address, which gets no message. */
  fixedCode(to: string): string | undefined
  /** A statement that sends it; `wake` follows the commit. */
  message(to: string, code: string): Sql
  wake(): void
  /** Counts a message, or throws if the limit of its purpose is reached. */
  spendMessage(tx: Tx, userId: string, purpose: CodePurpose): Promise<void>
  /** A statement that records what a right code proves besides the factor. */
  proves?(userId: string): Sql
  failures: {
    wrong(): AppError
    expiredEnrolment(): AppError
    expiredChallenge(): AppError
    /** For a code with too many wrong guesses; without it such a code is just wrong. */
    dead?(secondsLeft: number): AppError
  }
}

export function createSentCodes(
  deps: {
    enrolment: Enrolment
    verification: Verification
    /** Codes are short, so a plain hash could be reversed by trying all of them. */
    codeKey: Buffer
  },
  channel: CodeChannel,
) {
  const { enrolment, verification } = deps
  const { method, digits, failures } = channel
  const hashOf = (challengeId: string, code: string): string =>
    hmacSha256(deps.codeKey, `${challengeId} ${code}`).toString('hex')

  /** Resolves to the id of the challenge. */
  async function send(tx: Tx, userId: string, purpose: CodePurpose, factorId: string, to: string): Promise<string> {
    await channel.spendMessage(tx, userId, purpose)
    const [id, fixed] = [randomUUID(), channel.fixedCode(to)]
    const code = fixed ?? randomDigits(digits)
    await tx.run(q.insertChallenge({ id, factorId, codeHash: hashOf(id, code), seconds: channel.seconds }))
    // A text message may be refused silently: the number's country or the day's limit is nothing to tell.
    const isSent = fixed !== undefined || (await tx.run(channel.message(to, code))) > 0
    if (!isSent && method === 'email') throw tooManyMessages(3600)
    return id
  }

  async function check(
    tx: Tx,
    challenge: q.Challenge,
    code: string,
    expired: () => AppError,
  ): Promise<AppError | undefined> {
    if (challenge.seconds_left < 1) throw expired()
    const isDead = challenge.attempts >= channel.maxWrong
    if (isDead && failures.dead) throw failures.dead(challenge.seconds_left)
    const isRight = equalInConstantTime(challenge.code_hash ?? '', hashOf(challenge.id, code))
    await tx.run(isRight && !isDead ? q.spendChallenge(challenge.id) : q.countWrongCode(challenge.id))
    return isRight && !isDead ? undefined : failures.wrong()
  }

  return {
    /** `phone`: where to send codes, if not to the account's own address. */
    async enroll(user: UserIdentity, phone?: string): Promise<void> {
      const id = randomUUID()
      await enrolment.start(user, method, { id, phone }, (tx, { email }) => {
        const to = phone ?? email
        if (to === '') throw badRequest('account has no email address')
        return send(tx, user.id, 'enrolment', id, to)
      })
      channel.wake()
    },

    confirm: (user: UserIdentity, code: string): Promise<void> =>
      enrolment.confirm(user, method, async (tx, pending) => {
        const [challenge] = await tx.rows<q.Challenge>(q.enrolmentChallenge(pending.id))
        // A cleanup job removed the code.
        if (!challenge) throw failures.expiredEnrolment()
        const wrong = await check(tx, challenge, code, failures.expiredEnrolment)
        if (!wrong && channel.proves) await tx.run(channel.proves(user.id))
        return wrong
      }),

    async challenge(userId: string): Promise<string> {
      const id = await verification.prepare(userId, async (tx) => {
        const factor = await requireFactor(tx, userId, method)
        return send(tx, userId, 'challenge', factor.id, factor.address)
      })
      channel.wake()
      return id
    },

    verify: (who: PendingIdentity, challengeId: string, code: string, device: Device): Promise<AuthResponse> =>
      verification.attempt(who, method, device, async (tx) => {
        const challenge = await openChallenge(tx, challengeId, who.id, method)
        return check(tx, challenge, code, failures.expiredChallenge)
      }),
  }
}
