import type { Departure } from '../../../core/departure.ts'
import { AppError, type ErrorKind, notFound } from '../../../core/errors.ts'
import type { Identity } from '../../../core/identity.ts'
import type { Appender } from '../../../db/changes/append.ts'
import type { Db } from '../../../db/db.ts'
import { failedStatement, sqlStateOf } from '../../../db/pg-errors.ts'
import type { Place } from '../../../db/rows/place.ts'
import type { Sql } from '../../../db/sql.ts'
import { explainWrite } from '../write/errors.ts'
import { buildLocks, buildRun, mergeRuns, type Run, resultsOf, splitRun } from './build.ts'
import { type BatchMethod, blame, type Operation } from './parse.ts'

/** Raised by svc.require_rows. */
const ROWS_MISSING = 'SV404'
/** More than this may hold up the reads behind it on the same connection. */
const MANY = 50

/** All operations in one flight, all or nothing. Resolves to the JSON text of the results. */
export async function runBatch(
  db: Db,
  who: Identity,
  place: Place,
  operations: readonly Operation[],
  log: Appender,
  signal: Departure,
): Promise<string> {
  const lane = operations.length > MANY ? 'slow' : 'fast'
  const runWith = (preface: readonly Sql[]) => {
    const attempt = async (runs: readonly Run[]): Promise<string> => {
      const statements = [...preface, ...runs.map((run) => buildRun(place, run, log))] as [Sql, ...Sql[]]
      const texts = await db.flyAll(who, statements, { lane, signal, plain: !place.table.runsUserCode })
      return `[${runs.map((run, i) => resultsOf(run, texts[preface.length + i] ?? null)).join(',')}]`
    }
    return findingTheCulprit(mergeRuns(operations), attempt, preface.length)
  }
  const locks = buildLocks(place, operations)
  if (!locks) return runWith([])
  return runWith([locks]).catch((error: unknown) => {
    // One bad key spoils the locking of all; the operation that brought it must say so.
    if (failedStatement(error) === 0 && !isAboutTheServer(error)) return runWith([])
    throw error
  })
}

/**
 * A failed flight left nothing behind, so it is flown again in smaller steps until the failing one stands alone:
 * first the run that failed is taken apart, then, should another one fail, all of them.
 */
async function findingTheCulprit(
  runs: readonly Run[],
  attempt: (runs: readonly Run[]) => Promise<string>,
  prefaceLength: number,
  tries = 1,
): Promise<string> {
  try {
    return await attempt(runs)
  } catch (error) {
    const failed = failedStatement(error)
    const run = failed === undefined ? undefined : runs[failed - prefaceLength]
    if (!run || !(error instanceof AppError) || isAboutTheServer(error)) throw error
    if (run.length === 1) throw blame(explain(error, run[0]), run[0].index)
    const smaller = runs.flatMap((each) => (each === run || tries > 1 ? splitRun(each) : [each]))
    return findingTheCulprit(smaller, attempt, prefaceLength, tries + 1)
  }
}

const SERVER_TROUBLE: readonly ErrorKind[] = ['unavailable', 'timeout', 'request_timeout']
const isAboutTheServer = (error: unknown): boolean => error instanceof AppError && SERVER_TROUBLE.includes(error.kind)

function explain(error: AppError, { method, columns }: Operation): AppError {
  return sqlStateOf(error) === ROWS_MISSING ? missing[method]() : explainWrite(error, columns)
}

const missing: Record<BatchMethod, () => AppError> = {
  // A trigger swallowed the row.
  create: () => new AppError('forbidden', 'insufficient permissions'),
  update: () => notFound('record not found'),
  delete: () => notFound('record not found'),
}
