import { AppError, notFound } from '../../../core/errors.ts'
import type { Relayed } from '../../../db/db.ts'
import { failedStatement, isRowMissing } from '../../../db/pg-errors.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { TimeBudget } from '../../../db/rows/time-budget.ts'
import { isHiddenConflict } from '../../../db/rows/upsert.ts'
import type { Privilege } from '../../../db/schema/snapshot.ts'
import { type Sql, sql } from '../../../db/sql.ts'
import { keepReply } from '../../../http/once.ts'
import { type Call, type JsonText, jsonText, type Reply } from '../../../http/route.ts'
import { requireWritable } from '../target/find-table.ts'
import { rightsOn } from '../target/rights.ts'
import { explainWrite } from '../write/errors.ts'
import { explainUpsert } from '../write/upsert.ts'
import type { WriteDeps } from '../write/write-rows.ts'
import { groupOfEachStatement, groupOperations, type OperationGroup, splitGroup } from './operation-groups.ts'
import { type BatchMethod, type BatchOperation, blame, parseBatch } from './parse.ts'
import { groupStatements, lockStatement, resultsOf } from './statements.ts'

/** A batch with more operations counts as slow, so that reads do not queue behind it on its connection. */
const MANY = 50

/** Runs all operations of a request in one flight: all or none. */
export async function writeBatch(deps: WriteDeps, call: Call, target: TableView): Promise<Reply> {
  requireWritable(target, 'insertable')
  const operations = parseBatch(target.table, call.body, call.bodyText)
  if (operations.some(({ key }) => key.length > 0)) requireWritable(target, 'updatable')
  const reply = await runBatch(deps, call, target, operations)
  deps.log.wake()
  return reply
}

async function runBatch(
  { db, sqlCache, log: logs, timeoutMs }: WriteDeps,
  { who, requestId, cancelSignal: signal, once: key }: Call,
  target: TableView,
  operations: readonly BatchOperation[],
): Promise<Reply> {
  const log = logs.appender(who, requestId)
  const kind = operations.length > MANY ? 'slow' : 'write'
  const time = new TimeBudget(timeoutMs)
  const runWith = (preface: readonly Sql[]) => {
    const attempt = async (groups: readonly OperationGroup[]): Promise<Reply> => {
      const ofEach = groups.map((group) => groupStatements(sqlCache, target, group, log))
      const last = groups.length > 1 ? [sql`select ${time.remainder}`] : []
      const statements = [...preface, ...ofEach.flatMap((some) => [...some, ...last])] as [Sql, ...Sql[]]
      const reply = (values: readonly (Relayed | null)[]): Reply => {
        const answers = values.slice(preface.length)
        const statementGroups = groupOfEachStatement(groups)
        const results = groups.map((group) => resultsOf(group, answers.slice(statementGroups.indexOf(group))))
        return jsonText(200, listOf(results))
      }
      const once = key && keepReply(key, rightsOf(target, operations), reply)
      const plain = !target.table.runsUserCode
      const options = { kind, signal, plain, as: 'bytes', timeoutMs: time.left, once } as const
      return reply(await db.fly(who, statements, options))
    }
    return isolateFailure(groupOperations(operations), attempt, preface.length)
  }
  const locks = lockStatement(sqlCache, target, operations)
  if (!locks) return runWith([])
  return runWith([locks, sql`select ${time.remainder}`]).catch((error: unknown) => {
    // A malformed key fails the lock statement. Without locks the operation that has it fails and is named.
    if (failedStatement(error) === 0 && !isServerFailure(error)) return runWith([])
    throw error
  })
}

const PRIVILEGES: Record<BatchMethod, readonly Privilege[]> = {
  create: ['insert'],
  update: ['update'],
  upsert: ['insert', 'update'],
  delete: ['delete'],
}

const rightsOf = (target: TableView, operations: readonly BatchOperation[]): string[] => {
  const privileges = new Set(operations.flatMap(({ method }) => PRIVILEGES[method]))
  return rightsOn(target, [...privileges], [...new Set(operations.flatMap(({ columns }) => columns))])
}

/** Concatenates lists of results, each in pieces, into one JSON array. */
function listOf(lists: readonly Relayed[][]): JsonText {
  const pieces = ['[', ...lists.flatMap((list, i) => (i === 0 ? list : [',', ...list])), ']']
  const isShort = pieces.every((piece) => typeof piece === 'string')
  return isShort ? pieces.join('') : pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece))
}

/**
 * A failed flight is rolled back, so it can be retried in smaller groups until the failing operation is alone: first
 * only the failed group is split, and if another one fails, all of them.
 */
async function isolateFailure(
  groups: readonly OperationGroup[],
  attempt: (groups: readonly OperationGroup[]) => Promise<Reply>,
  prefaceLength: number,
  tries = 1,
): Promise<Reply> {
  try {
    return await attempt(groups)
  } catch (error) {
    const failed = failedStatement(error)
    const group = failed === undefined ? undefined : groupOfEachStatement(groups)[failed - prefaceLength]
    if (!group || !(error instanceof AppError) || isServerFailure(error)) throw error
    if (group.length === 1) throw blame(explain(error, group[0]), group[0].index)
    const smaller = groups.flatMap((each) => (each === group || tries > 1 ? splitGroup(each) : [each]))
    return isolateFailure(smaller, attempt, prefaceLength, tries + 1)
  }
}

const SERVER_FAILURES: readonly number[] = [408, 413, 503, 504]
/** Failures of the whole batch, not of one operation. */
const isServerFailure = (error: unknown): boolean =>
  error instanceof AppError && SERVER_FAILURES.includes(error.status) && !isHiddenConflict(error)

function explain(error: AppError, { method, columns }: BatchOperation): AppError {
  if (method === 'upsert') return explainWrite(explainUpsert(error), columns)
  return isRowMissing(error) ? missing[method]() : explainWrite(error, columns)
}

const missing: Record<Exclude<BatchMethod, 'upsert'>, () => AppError> = {
  // A trigger suppressed the row.
  create: () => new AppError('insufficient_privilege', 'insufficient permissions'),
  update: () => notFound('record not found', 'record_not_found'),
  delete: () => notFound('record not found', 'record_not_found'),
}
