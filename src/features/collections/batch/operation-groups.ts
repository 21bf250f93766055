import type { Conflict } from '../../../db/rows/upsert.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import type { BatchOperation } from './parse.ts'

/** Consecutive operations that share a statement; never empty. */
export type OperationGroup = readonly [BatchOperation, ...BatchOperation[]]

/** Groups consecutive operations that can share a statement without changing the result of the batch. */
export function groupOperations(operations: readonly BatchOperation[]): OperationGroup[] {
  const groups: [BatchOperation, ...BatchOperation[]][] = []
  let seen = new Set<string>()
  for (const operation of operations) {
    const group = groups.at(-1)
    const key = operation.key.length > 0 ? JSON.stringify(operation.key) : ''
    if (group && canJoin(group[0], operation) && (key === '' || !seen.has(key))) group.push(operation)
    else {
      groups.push([operation])
      seen = new Set()
    }
    seen.add(key)
  }
  return groups
}

/** A statement changes each row once and finds rows by the keys at its start, so no operation of a group may change a key. */
function canJoin(first: BatchOperation, next: BatchOperation): boolean {
  if (first.method !== next.method || !isSame(first.columns, next.columns)) return false
  if (first.conflict) return first.conflict.merged.length > 0 && isSameConflict(first.conflict, next.conflict)
  return first.method === 'create' || !first.columns.some((column) => column.isPrimaryKey)
}

const isSame = (some: readonly Column[], others: readonly Column[]): boolean =>
  some === others || (some.length === others.length && some.every((column, i) => column === others[i]))

const isSameConflict = (one: Conflict, other: Conflict | undefined): boolean =>
  other !== undefined && isSame(one.on, other.on) && isSame(one.merged, other.merged)

/**
 * The group of each statement of a batch. An upsert that ignores conflicts takes two statements, and where there are several
 * groups, each ends with the statement that sets the time of the next.
 */
export const groupOfEachStatement = (groups: readonly OperationGroup[]): OperationGroup[] =>
  groups.flatMap((group) => {
    const count = (group[0].conflict?.merged.length === 0 ? 2 : 1) + (groups.length > 1 ? 1 : 0)
    return Array<OperationGroup>(count).fill(group)
  })

export const splitGroup = (group: OperationGroup): OperationGroup[] =>
  group.map((operation): OperationGroup => [operation])
