import { AppError, badRequest } from '../../core/errors.ts'
import { databaseMessage, isAmbiguousFunction, isMissingColumn, isServerTrouble, raisedBy } from '../../db/pg-errors.ts'
import { ambiguous } from './resolve.ts'

/** What a function raises becomes a 400 with its message; errors common to all routes keep their status. */
export function explainFailure(error: unknown, name: string): unknown {
  const message = databaseMessage(error)
  if (!(error instanceof AppError) || message === undefined || isServerTrouble(error)) return error
  if (isAmbiguousFunction(error)) return ambiguous(name)
  const isOurs = error.status === 500 || error.status === 404 || isMissingColumn(error)
  return isOurs ? badRequest(message, 'raise_exception', { cause: raisedBy(error) }) : error
}
