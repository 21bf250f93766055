import { sleep } from '../../core/clock.ts'
import { AppError } from '../../core/errors.ts'
import {
  isCanceled,
  isCanceledByRequest,
  isConnectionLost,
  isEndedSession,
  isLockTimeout,
  isOutdatedPlan,
  isRolledBack,
  isUnprepared,
  type PgError,
} from '../pg-errors.ts'
import type { Flight } from '../protocol/flight.ts'
import { MAX_RETRIES, RETRY_SPREAD_MS } from './tuning.ts'

/**
 * A flight or transaction is all or nothing, so one that PostgreSQL rolled back for reasons of its own may be flown
 * again.
 */
export function isWorthRetrying(error: unknown, tries: number, sessionStep?: number): boolean {
  if (tries > MAX_RETRIES) return false
  if (isRolledBack(error) || isUnprepared(error) || isOutdatedPlan(error) || isCanceledByRequest(error)) return true
  // A function left its own statement_timeout in the session.
  const cause = (error instanceof AppError ? error.cause : error) as PgError | undefined
  return isCanceled(error) && sessionStep !== undefined && cause?.statementIndex === sessionStep
}

/**
 * A flight that was lost with its connection. `not run`: it surely changed nothing. A session that PostgreSQL ended before
 * all statements were done was rolled back; otherwise the commit may have been made.
 */
export function fateOf(error: unknown, flight: Flight | undefined): 'answered' | 'not run' | 'unknown' {
  if (error instanceof AppError) return error.errorCode === 'database_unavailable' && !flight ? 'not run' : 'answered'
  if (!isConnectionLost(error)) return 'answered'
  if ((error as PgError).isFateUnknown) return 'unknown'
  if (!flight || (isEndedSession(error) && flight.values.length < flight.plan.steps.length)) return 'not run'
  return 'unknown'
}

export async function backOff(error: unknown, tries: number): Promise<void> {
  if (isRolledBack(error) || isLockTimeout(error)) await sleep(Math.random() * RETRY_SPREAD_MS * tries)
}
