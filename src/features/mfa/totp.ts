import { randomUUID } from 'node:crypto'
import { AppError, unauthorized } from '../../core/errors.ts'
import type { PendingIdentity, UserIdentity } from '../../core/identity.ts'
import type { SecretBox } from '../../core/secret-box.ts'
import type { Tx } from '../../db/db.ts'
import type { SealedColumn } from '../../db/sealed.ts'
import { sql } from '../../db/sql.ts'
import type { Verification } from '../../identity/second-factor.ts'
import type { AuthResponse, Device } from '../../identity/session.ts'
import { base32, newSecret, otpauthUri, stepAt, timeStep } from '../../identity/totp-code.ts'
import { challengeNotFound, openChallenge, requireFactor } from './challenges.ts'
import type { Enrolment } from './enrolment.ts'
import * as q from './sql.ts'

const CHALLENGE_SECONDS = 300

/** For a secret that cannot be decrypted: the user can use another factor, and the operator can fix the key. */
const UNREADABLE =
  'the secret of this authenticator app cannot be read: use another factor or a backup code; ' +
  'its key is missing in auth.previous_encryption_keys'

export const totpSecrets: SealedColumn = {
  name: 'TOTP secrets',
  table: sql`svc.mfa_factors`,
  id: sql`id`,
  idType: sql`uuid`,
  sealed: sql`secret`,
  store: (text) => sql`secret = ${text}`,
  context: (factorId) => `totp ${factorId}`,
}

export type Totp = ReturnType<typeof createTotp>

/** Codes of an authenticator app. */
export function createTotp(deps: {
  enrolment: Enrolment
  verification: Verification
  box: SecretBox
  appName: string
}) {
  const { enrolment, verification, box } = deps
  const { context } = totpSecrets

  function secretOf({ id, secret }: q.Factor): Buffer {
    try {
      return Buffer.from(box.open(secret, context(id)), 'hex')
    } catch (error) {
      throw new AppError('secret_unreadable', UNREADABLE, { headers: { 'Retry-After': '60' }, cause: error })
    }
  }

  /** Spends the time step of the code, so that an observed code cannot be reused. */
  async function check(tx: Tx, factor: q.Factor, code: string): Promise<AppError | undefined> {
    const step = timeStep(secretOf(factor), code, stepAt(factor.epoch))
    if (step === undefined) return unauthorized('invalid TOTP code', 'invalid_code')
    // A used code is not a guess, so it is not counted as a failure.
    if ((await tx.run(q.spendStep(factor.id, step))) === 0) throw unauthorized('TOTP code already used', 'invalid_code')
    return undefined
  }

  return {
    enroll(user: UserIdentity): Promise<{ factor_id: string; uri: string; secret: string }> {
      const [id, secret] = [randomUUID(), newSecret()]
      const stored = box.seal(secret.toString('hex'), context(id))
      return enrolment.start(user, 'totp', { id, secret: stored }, async (_tx, { email, phone }) => ({
        factor_id: id,
        uri: otpauthUri(deps.appName, email || phone || user.id, secret),
        secret: base32(secret),
      }))
    },

    confirm: (user: UserIdentity, code: string): Promise<void> =>
      enrolment.confirm(user, 'totp', (tx, pending) => check(tx, pending, code)),

    challenge: (userId: string): Promise<string> =>
      verification.prepare(userId, async (tx) => {
        const factor = await requireFactor(tx, userId, 'totp')
        const id = randomUUID()
        await tx.run(q.insertChallenge({ id, factorId: factor.id, codeHash: null, seconds: CHALLENGE_SECONDS }))
        return id
      }),

    verify: (who: PendingIdentity, challengeId: string, code: string, device: Device): Promise<AuthResponse> =>
      verification.attempt(who, 'totp', device, async (tx) => {
        const challenge = await openChallenge(tx, challengeId, who.id, 'totp')
        if (challenge.seconds_left < 1) throw challengeNotFound()
        const wrong = await check(tx, await requireFactor(tx, who.id, 'totp'), code)
        if (!wrong) await tx.run(q.spendChallenge(challenge.id))
        return wrong
      }),
  }
}
