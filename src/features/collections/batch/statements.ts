import type { Appender } from '../../../db/changes/append.ts'
import type { Relayed } from '../../../db/db.ts'
import type { SqlCache } from '../../../db/rows/sql-cache.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { mayDo } from '../../../db/schema/lookup.ts'
import { type Slot, Slots, type Sql } from '../../../db/sql.ts'
import { shapeOf } from '../write/statements.ts'
import { RECORD_SEPARATOR, upsertResult, upsertStatements } from '../write/upsert.ts'
import { buildGroup, buildLocks, type GroupKind } from './build.ts'
import type { OperationGroup } from './operation-groups.ts'
import type { BatchOperation } from './parse.ts'

/** The statements of a group, built once per method and set of columns. */
export function groupStatements(
  sqlCache: SqlCache,
  target: TableView,
  group: OperationGroup,
  log: Appender,
): readonly Sql[] {
  const [{ method, columns, conflict }] = group
  const bodies = group.map(({ body }) => body)
  if (conflict) return upsertStatements(sqlCache, target, { columns, bodies, conflict, log })
  return [groupStatement(sqlCache, target, { method, columns }, { keysOf: group, bodies, log })]
}

type GroupValues = { readonly keysOf: readonly Keyed[]; readonly bodies: readonly string[]; readonly log: Appender }
type Keyed = Pick<BatchOperation, 'key'>

function groupStatement(
  sqlCache: SqlCache,
  target: TableView,
  kind: GroupKind,
  { keysOf, bodies, log }: GroupValues,
): Sql {
  const slots = new Slots()
  const where = {
    keys: keySlots(target, keysOf, slots),
    bodies: slots.put(`[${bodies.join(',')}]`),
    count: slots.put(bodies.length),
  }
  const logged = log.within(slots)
  const shape = `batch ${kind.method} ${shapeOf(kind.columns)}`
  return sqlCache.get(target, shape, () => buildGroup(target, kind, where, logged)).fill(slots.values)
}

/**
 * Locks the rows that the batch changes in key order, so that two batches over the same rows wait for each other instead
 * of deadlocking. Undefined for fewer than two rows, or without the privilege to lock.
 */
export function lockStatement(
  sqlCache: SqlCache,
  target: TableView,
  operations: readonly BatchOperation[],
): Sql | undefined {
  const changes = operations.filter(({ key }) => key.length > 0)
  if (changes.length < 2 || !mayDo(target.table, target.viewer.role, 'update')) return undefined
  const isForDelete = changes.some(({ method }) => method === 'delete')
  const slots = new Slots()
  const keys = keySlots(target, changes, slots)
  const shape = isForDelete ? 'lock for delete' : 'lock for update'
  return sqlCache.get(target, shape, () => buildLocks(target, keys, isForDelete)).fill(slots.values)
}

const keySlots = ({ table }: TableView, operations: readonly Keyed[], slots: Slots): Slot[] =>
  table.primaryKey.map((_, i) => slots.put(operations.map(({ key }) => key[i] ?? '')))

const STATUS = { create: 201, update: 200, delete: 204 }

/** The results of a group as pieces of JSON; `answers` begins with those of its statements. */
export function resultsOf(group: OperationGroup, answers: readonly (Relayed | null)[]): Relayed[] {
  const [{ index: first, method }] = group
  if (method === 'upsert') return [upsertResults(first, answers)]
  const status = `,"status":${STATUS[method]}`
  if (method === 'delete') return [group.map(({ index }) => `{"index":${index}${status}}`).join(',')]
  const pieces: Relayed[] = []
  for (const [i, body] of rowTexts(answers[0] ?? '', group.length).entries()) {
    pieces.push(`${i === 0 ? '' : ','}{"index":${first + i}${status},"body":`, body, '}')
  }
  return pieces
}

/** Average row size from which slicing the buffer is faster than splitting a string. */
const LONG_BODY = 16 * 1024

/** The JSON text of each row that a group created or changed. */
function rowTexts(answer: Relayed, count: number): Relayed[] {
  if (typeof answer === 'string' || answer.length < count * LONG_BODY) return String(answer).split(RECORD_SEPARATOR)
  const parts: Buffer[] = []
  let start = 0
  for (let end = answer.indexOf(RECORD_SEPARATOR); end !== -1; end = answer.indexOf(RECORD_SEPARATOR, start)) {
    parts.push(answer.subarray(start, end))
    start = end + 1
  }
  return [...parts, answer.subarray(start)]
}

function upsertResults(first: number, [answer, found]: readonly (Relayed | null)[]): string {
  const results = String(answer ?? found ?? '')
    .split(RECORD_SEPARATOR)
    .map((each, i) => {
      const { status, text } = upsertResult([each])
      return `{"index":${first + i},"status":${status},"body":${text}}`
    })
  return results.join(',')
}
