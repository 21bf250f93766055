import { AppError, badRequest } from '../../core/errors.ts'
import { type PgError, sqlStateOf } from '../../db/pg-errors.ts'
import { ambiguous } from './resolve.ts'

/** Trouble of the server rather than of the function: resources, shutdown, corruption. */
const SERVER_TROUBLE = /^(?:08|53|57|58|XX00[12])/

/** Whatever a function raises is its answer to the caller; only what is common to all routes keeps its own status. */
export function explainFailure(error: unknown, name: string): unknown {
  const state = sqlStateOf(error)
  if (!(error instanceof AppError) || state === undefined || SERVER_TROUBLE.test(state)) return error
  if (state === '42725') return ambiguous(name)
  const isOurs = error.kind === 'internal' || error.kind === 'not_found' || state === '42703'
  return isOurs ? badRequest((error.cause as PgError).message) : error
}
