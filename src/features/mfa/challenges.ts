import { AppError, notFound } from '../../core/errors.ts'
import { isUuid } from '../../core/uuid.ts'
import type { Tx } from '../../db/db.ts'
import { type FactorMethod, MFA_METHODS } from './methods.ts'
import * as q from './sql.ts'

export const challengeNotFound = () => notFound('challenge not found or expired', 'challenge_not_found')

export async function requireFactor(tx: Tx, userId: string, method: FactorMethod): Promise<q.Factor> {
  const [factor] = await tx.rows<q.Factor>(q.enrolledFactor(userId, method))
  if (!factor) throw notFound(`no ${MFA_METHODS[method].name} factor enrolled`, 'factor_not_found')
  return factor
}

/** An unanswered challenge of this user, which may have expired. */
export async function openChallenge(tx: Tx, id: string, userId: string, method: FactorMethod): Promise<q.Challenge> {
  const [challenge] = isUuid(id) ? await tx.rows<q.Challenge>(q.challengeOf(id, userId, method)) : []
  if (!challenge) throw challengeNotFound()
  if (challenge.is_verified) throw new AppError('challenge_used', 'challenge already verified')
  return challenge
}
