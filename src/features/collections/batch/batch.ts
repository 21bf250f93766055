import { AppError, notFound } from '../../../core/errors.ts'
import type { Relayed } from '../../../db/db.ts'
import { failedStatement, isRowMissing } from '../../../db/pg-errors.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { isHiddenConflict } from '../../../db/rows/upsert.ts'
import type { Sql } from '../../../db/sql.ts'
import { type Call, type JsonText, jsonText, type Reply } from '../../../http/route.ts'
import { requireWritable } from '../target/find-table.ts'
import { explainWrite } from '../write/errors.ts'
import { explainUpsert } from '../write/upsert.ts'
import type { WriteDeps } from '../write/writes.ts'
import { type BatchMethod, type BatchOperation, blame, parseBatch } from './parse.ts'
import { mergeRuns, ownersOf, type Run, splitRun } from './runs.ts'
import { lockStatement, resultsOf, runStatements } from './statements.ts'

/** More than this may hold up the reads behind it on the same connection. */
const MANY = 50

/** All operations of a request in one flight, all or nothing. */
export async function writeBatch(deps: WriteDeps, call: Call, target: TableView): Promise<Reply> {
  requireWritable(target, 'insertable')
  const operations = parseBatch(target.table, call.body, call.bodyText)
  const text = await runBatch(deps, call, target, operations)
  deps.log.wake()
  return jsonText(200, text)
}

/** Resolves to the JSON text of the results. */
async function runBatch(
  { db, known, log: logs }: WriteDeps,
  { who, requestId, cancelSignal: signal }: Call,
  target: TableView,
  operations: readonly BatchOperation[],
): Promise<JsonText> {
  const log = logs.appender(who, requestId)
  const kind = operations.length > MANY ? 'slow' : 'write'
  const runWith = (preface: readonly Sql[]) => {
    const attempt = async (runs: readonly Run[]): Promise<JsonText> => {
      const statements = [...preface, ...runs.flatMap((run) => runStatements(known, target, run, log))] as [
        Sql,
        ...Sql[],
      ]
      const options = { kind, signal, plain: !target.table.runsUserCode, as: 'bytes' } as const
      const answers = (await db.fly(who, statements, options)).slice(preface.length)
      const owners = ownersOf(runs)
      return listOf(runs.map((run) => resultsOf(run, answers.slice(owners.indexOf(run)))))
    }
    return findingTheCulprit(mergeRuns(operations), attempt, preface.length)
  }
  const locks = lockStatement(known, target, operations)
  if (!locks) return runWith([])
  return runWith([locks]).catch((error: unknown) => {
    // One bad key spoils the locking of all; the operation that brought it must say so.
    if (failedStatement(error) === 0 && !isAboutTheServer(error)) return runWith([])
    throw error
  })
}

/** One JSON array of lists of results, each of which is in pieces. */
function listOf(lists: readonly Relayed[][]): JsonText {
  const pieces = ['[', ...lists.flatMap((list, i) => (i === 0 ? list : [',', ...list])), ']']
  const isShort = pieces.every((piece) => typeof piece === 'string')
  return isShort ? pieces.join('') : pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece))
}

/**
 * A failed flight left nothing behind, so it is flown again in smaller steps until the failing one stands alone:
 * first the run that failed is taken apart, then, should another one fail, all of them.
 */
async function findingTheCulprit(
  runs: readonly Run[],
  attempt: (runs: readonly Run[]) => Promise<JsonText>,
  prefaceLength: number,
  tries = 1,
): Promise<JsonText> {
  try {
    return await attempt(runs)
  } catch (error) {
    const failed = failedStatement(error)
    const run = failed === undefined ? undefined : ownersOf(runs)[failed - prefaceLength]
    if (!run || !(error instanceof AppError) || isAboutTheServer(error)) throw error
    if (run.length === 1) throw blame(explain(error, run[0]), run[0].index)
    const smaller = runs.flatMap((each) => (each === run || tries > 1 ? splitRun(each) : [each]))
    return findingTheCulprit(smaller, attempt, prefaceLength, tries + 1)
  }
}

const SERVER_TROUBLE: readonly number[] = [408, 503, 504]
const isAboutTheServer = (error: unknown): boolean =>
  error instanceof AppError && SERVER_TROUBLE.includes(error.status) && !isHiddenConflict(error)

function explain(error: AppError, { method, columns }: BatchOperation): AppError {
  if (method === 'upsert') return explainWrite(explainUpsert(error), columns)
  return isRowMissing(error) ? missing[method]() : explainWrite(error, columns)
}

const missing: Record<Exclude<BatchMethod, 'upsert'>, () => AppError> = {
  // A trigger swallowed the row.
  create: () => new AppError('insufficient_privilege', 'insufficient permissions'),
  update: () => notFound('record not found', 'record_not_found'),
  delete: () => notFound('record not found', 'record_not_found'),
}
