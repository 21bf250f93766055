import { AppError, unauthorized } from '../../core/errors.ts'
import type { Tx } from '../../db/db.ts'
import type { IdentityDeps } from '../../identity/deps.ts'
import { tooManyFailures, tooManyMessages } from '../../identity/errors.ts'
import type { CodeChannel, CodePurpose } from './sent-codes.ts'
import * as q from './sql.ts'

const SECONDS = 600
const MAX_MAILS = 3

export function emailChannel(deps: Pick<IdentityDeps, 'queueMail' | 'wakeMail'>): CodeChannel {
  const expired = () => new AppError('code_expired', 'email MFA code expired')
  return {
    method: 'email',
    digits: 6,
    seconds: SECONDS,
    maxWrong: 5,
    fixedCode: () => undefined,
    message: (to, code) => deps.queueMail('auth.mfa_code', to, { Code: code }),
    wake: deps.wakeMail,
    spendMessage,
    // A code by mail proves the address, like the link of the registration.
    proves: q.verifyAddress,
    failures: {
      wrong: () => unauthorized('invalid email MFA code', 'invalid_code'),
      expiredEnrolment: expired,
      expiredChallenge: expired,
      dead: tooManyFailures,
    },
  }
}

/** Against flooded mailboxes and many guessable codes. */
async function spendMessage(tx: Tx, userId: string, purpose: CodePurpose): Promise<void> {
  const [full] = await tx.rows<{ seconds: number }>(q.mailWait(userId, purpose, MAX_MAILS, SECONDS))
  if (full && full.seconds > 0) {
    throw tooManyMessages(full.seconds)
  }
  await tx.run(q.countMail(userId, purpose, SECONDS))
}
