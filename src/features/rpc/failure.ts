import { AppError, badRequest } from '../../core/errors.ts'
import { databaseMessage, isAmbiguousFunction, isMissingColumn, isServerTrouble } from '../../db/pg-errors.ts'
import { ambiguous } from './resolve.ts'

/** Whatever a function raises is its answer to the caller; only what is common to all routes keeps its own status. */
export function explainFailure(error: unknown, name: string): unknown {
  const said = databaseMessage(error)
  if (!(error instanceof AppError) || said === undefined || isServerTrouble(error)) return error
  if (isAmbiguousFunction(error)) return ambiguous(name)
  const isOurs = error.status === 500 || error.status === 404 || isMissingColumn(error)
  return isOurs ? badRequest(said, 'raise_exception') : error
}
