import { AppError, badRequest } from '../../../core/errors.ts'
import type { Db, FlyOptions, Relayed } from '../../../db/db.ts'
import { databaseMessage, isBadValue, isMissingFunction, isUnnamedError } from '../../../db/pg-errors.ts'
import type { Cursors } from '../../../db/rows/cursors.ts'
import type { SqlCache } from '../../../db/rows/sql-cache.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { Slots, type Sql } from '../../../db/sql.ts'
import type { Call } from '../../../http/route.ts'
import { buildAggregate, explainAggregate, parseAggregate } from './aggregate.ts'
import { buildList, buildRead } from './build.ts'
import { parseCursor } from './cursor.ts'
import { buildCursorPage, CURSOR_SEPARATOR } from './cursor-build.ts'
import { type Estimate, type ListQuery, parseList, parseRow } from './parse.ts'
import { planList, planOrder, planRow } from './plan.ts'
import type { ListDeps } from './stages/stage.ts'
import { estimateOf } from './total.ts'

export const SLOW: FlyOptions = { kind: 'slow', plain: true }
export const READ: FlyOptions = { kind: 'read' }

type Query = Readonly<Record<string, string>>

/** Parse, plan and build the statement of a list. Plan and statement are cached per shape of the query. */
export function listStatement(
  sqlCache: SqlCache,
  query: Query,
  target: TableView,
  listDeps: ListDeps,
  estimate?: Estimate,
): { listQuery: ListQuery; statement: Sql } {
  const slots = new Slots()
  const listQuery = parseList(query, slots, target, estimate)
  const shape = `list ${JSON.stringify(listQuery)}`
  const statement = sqlCache.get(target, shape, () => buildList(planList(listQuery, target, listDeps), target.schema))
  return { listQuery, statement: statement.fill(slots.values) }
}

export type ListReader = {
  readonly db: Db
  readonly sqlCache: SqlCache
  readonly listDeps: ListDeps
  readonly cursors: Cursors
  /** Where a caller may read; undefined: there are no replicas. */
  readonly from?: ReadFrom | undefined
}

export type ReadFrom = (call: Call, target: TableView) => Pick<Db, 'fly'>

/** One page, by its number or by a cursor, as the JSON text of the answer. */
export async function listRows(reader: ListReader, call: Call, target: TableView): Promise<Relayed> {
  const { sqlCache, listDeps, cursors } = reader
  const db = reader.from ? reader.from(call, target) : reader.db
  const { query } = call
  const isByCursor = query['cursor'] !== undefined
  const parse = (slots: Slots, estimate?: Estimate): ListQuery =>
    isByCursor ? parseCursor(query, slots, target, cursors, estimate) : parseList(query, slots, target, estimate)
  const estimate =
    query['total'] === 'estimate' ? await estimateOf(reader.db, call, target, parse, listDeps) : undefined
  const { listQuery, statement } = isByCursor
    ? cursorStatement(reader, query, target, estimate)
    : listStatement(sqlCache, query, target, listDeps, estimate)
  const signal = call.cancelSignal
  const options: FlyOptions = mayBeSlow(listQuery) ? { ...SLOW, signal } : { ...READ, signal }
  const explain = (error: unknown): never => {
    throw explainList(error, listQuery)
  }
  if (!isByCursor) return (await db.fly(call.who, statement, { ...options, as: 'bytes' }).catch(explain)) ?? ''
  const text = await db.fly(call.who, statement, options).catch(explain)
  return withCursor(text ?? '', (keys) => cursors.seal(keys, target, planOrder(listQuery.sort, target)))
}

/** Aggregates of groups of rows, as the JSON text of the answer. */
export async function listAggregates(
  { db, sqlCache, listDeps, from }: ListReader,
  call: Call,
  target: TableView,
): Promise<string> {
  const slots = new Slots()
  const query = parseAggregate(call.query, slots, target)
  const shape = `aggregate ${JSON.stringify(query)}`
  const statement = sqlCache.get(target, shape, () => buildAggregate(query, planList(query, target, listDeps), target))
  const options = { ...SLOW, signal: call.cancelSignal }
  const source = from ? from(call, target) : db
  const text = await source.fly(call.who, statement.fill(slots.values), options).catch((error: unknown) => {
    throw explainAggregate(explainList(error, query))
  })
  return text ?? ''
}

function cursorStatement(
  { sqlCache, listDeps, cursors }: ListReader,
  query: Query,
  target: TableView,
  estimate?: Estimate,
) {
  const slots = new Slots()
  const listQuery = parseCursor(query, slots, target, cursors, estimate)
  const shape = `cursor ${JSON.stringify(listQuery)}`
  const build = (): Sql => buildCursorPage(planList(listQuery, target, listDeps), listQuery, target.schema)
  return { listQuery, statement: sqlCache.get(target, shape, build).fill(slots.values) }
}

/** See buildCursorPage. */
function withCursor(text: string, seal: (keys: string) => string): string {
  const end = text.lastIndexOf(CURSOR_SEPARATOR)
  const keys = text.slice(end + 1)
  return `${text.slice(0, end)},"nextCursor":${keys === '' ? 'null' : JSON.stringify(seal(keys))}}`
}

/** The statement of one record; `key` holds one text per primary-key column. */
export function readStatement(sqlCache: SqlCache, query: Query, key: readonly string[], target: TableView): Sql {
  const rowQuery = parseRow(query)
  const shape = `read ${JSON.stringify(rowQuery)}`
  return sqlCache.get(target, shape, () => buildRead(planRow(rowQuery, target), target.schema)).fill(key)
}

/** Lists that read many rows run apart from those that read few. */
const mayBeSlow = ({ search, facets, regions, distance }: ListQuery): boolean =>
  search !== undefined || facets.length > 0 || regions.length > 0 || distance !== undefined

/** Values are read and compared by PostgreSQL; what does not fit is the fault of the parameter that it came in. */
export function explainList(error: unknown, { filter, sort, search, facets }: ListQuery): unknown {
  if (!(error instanceof AppError)) return error
  if (search && isUnnamedError(error) && databaseMessage(error)?.startsWith('tsquery')) {
    return badRequest('invalid search syntax', 'invalid_search')
  }
  if (isMissingFunction(error)) {
    if (filter) return badRequest('invalid filter: operator is not supported by the column type', 'invalid_filter')
    if (facets.length > 0) return badRequest('unsupported column in facets parameter')
    return sort.length > 0 ? badRequest('unsupported column in sort parameter', 'invalid_sort') : error
  }
  return filter && isBadValue(error) ? badRequest(`invalid filter: ${error.message}`, 'invalid_filter') : error
}
