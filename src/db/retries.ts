import { sleep } from '../core/clock.ts'
import { AppError } from '../core/errors.ts'
import {
  isCanceled,
  isCanceledByRequest,
  isOutdatedPlan,
  isRolledBack,
  isUnprepared,
  type PgError,
} from './pg-errors.ts'

/** statementIndex of the step that sets the identity. */
export const SESSION_STEP = -1
const MAX_RETRIES = 3

/**
 * A flight or transaction is all or nothing, so one that PostgreSQL rolled back for reasons of its own may be flown
 * again.
 */
export function isWorthRetrying(error: unknown, tries: number): boolean {
  if (tries > MAX_RETRIES) return false
  if (isRolledBack(error) || isUnprepared(error) || isOutdatedPlan(error) || isCanceledByRequest(error)) return true
  // A function left its own statement_timeout behind.
  const cause = (error instanceof AppError ? error.cause : error) as PgError | undefined
  return isCanceled(error) && cause?.statementIndex === SESSION_STEP
}

export async function breather(error: unknown, tries: number): Promise<void> {
  if (isRolledBack(error)) await sleep(Math.random() * 20 * tries)
}
