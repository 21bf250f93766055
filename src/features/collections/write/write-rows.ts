import { AppError, notFound } from '../../../core/errors.ts'
import type { ChangeLog } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import type { SqlCache } from '../../../db/rows/sql-cache.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import type { Column, Privilege } from '../../../db/schema/snapshot.ts'
import type { Sql } from '../../../db/sql.ts'
import { keepReply } from '../../../http/once.ts'
import { type Call, jsonText, noContent, type Reply } from '../../../http/route.ts'
import { requireWritable } from '../target/find-table.ts'
import { keyFromPath } from '../target/key.ts'
import { rightsOn } from '../target/rights.ts'
import { writtenColumns } from './body.ts'
import { conflictOf } from './conflict.ts'
import { explainWrite } from './errors.ts'
import { createStatement, deleteStatement, updateStatement } from './statements.ts'
import { explainUpsert, upsertResult, upsertStatements } from './upsert.ts'

export type WriteDeps = {
  readonly db: Pick<Db, 'fly'>
  readonly sqlCache: SqlCache
  /** Writes are appended to it; its reader is woken after the commit. */
  readonly log: Pick<ChangeLog, 'appender' | 'wake'>
  /** Milliseconds that a request may take in the database. */
  readonly timeoutMs: number
}

export async function createRow(deps: WriteDeps, call: Call, target: TableView): Promise<Reply> {
  requireWritable(target, 'insertable')
  const columns = writtenColumns(target, call.body, call.bodyText)
  if (call.query['onConflict'] !== undefined) return upsertRow(deps, call, target, columns)
  const statement = createStatement(deps.sqlCache, target, rowInput(deps, call, columns))
  return write(deps, call, target, { statements: [statement], columns, privileges: INSERT, reply: created })
}

function created([text]: Texts): Reply {
  // A trigger suppressed the row.
  if (text == null) throw new AppError('insufficient_privilege', 'insufficient permissions')
  return jsonText(201, text)
}

async function upsertRow(deps: WriteDeps, call: Call, target: TableView, columns: readonly Column[]): Promise<Reply> {
  const { onConflict = '', merge } = call.query
  const conflict = conflictOf(target.table, onConflict, merge, columns)
  const { log } = rowInput(deps, call, columns)
  const statements = upsertStatements(deps.sqlCache, target, { columns, bodies: [call.bodyText], conflict, log })
  const work = { statements, columns, privileges: UPSERT, reply: upserted }
  return write(deps, call, target, work).catch((error: unknown) => {
    throw error instanceof AppError ? explainUpsert(error) : error
  })
}

function upserted(texts: Texts): Reply {
  const { status, text } = upsertResult(texts)
  return jsonText(status, text)
}

export async function updateRow(deps: WriteDeps, call: Call, target: TableView): Promise<Reply> {
  requireWritable(target, 'updatable')
  const key = keyFromPath(call, target)
  const columns = writtenColumns(target, call.body, call.bodyText)
  const statement = updateStatement(deps.sqlCache, target, key, rowInput(deps, call, columns))
  return write(deps, call, target, { statements: [statement], columns, privileges: UPDATE, key, reply: updated })
}

function updated([text]: Texts): Reply {
  if (text == null) throw notFound('record not found', 'record_not_found')
  return jsonText(200, text)
}

export async function deleteRow(deps: WriteDeps, call: Call, target: TableView): Promise<Reply> {
  requireWritable(target, 'updatable')
  const key = keyFromPath(call, target)
  const statement = deleteStatement(deps.sqlCache, target, key, deps.log.appender(call.who, call.requestId))
  return write(deps, call, target, { statements: [statement], columns: [], privileges: DELETE, key, reply: deleted })
}

function deleted([one]: Texts): Reply {
  if (one == null) throw notFound('record not found', 'record_not_found')
  return noContent
}

const rowInput = ({ log }: WriteDeps, { who, requestId, bodyText }: Call, columns: readonly Column[]) => ({
  columns,
  body: bodyText,
  log: log.appender(who, requestId),
})

type Texts = readonly (string | null)[]

type RowWrite = {
  readonly statements: readonly [Sql, ...Sql[]]
  readonly columns: readonly Column[]
  /** That the caller needs. */
  readonly privileges: readonly Privilege[]
  /** Writes to the same row queue before they take a connection. */
  readonly key?: readonly string[]
  readonly reply: (texts: Texts) => Reply
}

const INSERT: readonly Privilege[] = ['insert']
const UPSERT: readonly Privilege[] = ['insert', 'update']
const UPDATE: readonly Privilege[] = ['update']
const DELETE: readonly Privilege[] = ['delete']

async function write({ db, log }: WriteDeps, call: Call, target: TableView, work: RowWrite): Promise<Reply> {
  const { statements, columns, privileges, key, reply } = work
  const { table } = target
  const row = key && [table.ident.quoted, ...key].join('\0')
  const once =
    call.once && keepReply(call.once, rightsOn(target, privileges, columns), reply as (texts: unknown) => Reply)
  const options = { signal: call.cancelSignal, plain: !table.runsUserCode, row, once }
  const texts = await db.fly(call.who, statements, options).catch((error: unknown) => {
    throw error instanceof AppError ? explainWrite(error, columns) : error
  })
  log.wake()
  return reply(texts)
}
