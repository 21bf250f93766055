import type { Conflict } from '../../../db/rows/upsert.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import type { BatchOperation } from './parse.ts'

/** Operations that one statement can do; never empty. */
export type Run = readonly [BatchOperation, ...BatchOperation[]]

/** Joins neighbours that can share a statement without changing what the batch means. */
export function mergeRuns(operations: readonly BatchOperation[]): Run[] {
  const runs: [BatchOperation, ...BatchOperation[]][] = []
  let seen = new Set<string>()
  for (const operation of operations) {
    const run = runs.at(-1)
    const key = operation.key.length > 0 ? JSON.stringify(operation.key) : ''
    if (run && canFollow(run[0], operation) && (key === '' || !seen.has(key))) run.push(operation)
    else {
      runs.push([operation])
      seen = new Set()
    }
    seen.add(key)
  }
  return runs
}

/** One statement changes a row once and looks keys up only at its start: keys stay as they are within a run. */
function canFollow(first: BatchOperation, next: BatchOperation): boolean {
  if (first.method !== next.method || !isSame(first.columns, next.columns)) return false
  if (first.conflict) return first.conflict.merged.length > 0 && isSameConflict(first.conflict, next.conflict)
  return first.method === 'create' || !first.columns.some((column) => column.isPrimaryKey)
}

const isSame = (some: readonly Column[], others: readonly Column[]): boolean =>
  some === others || (some.length === others.length && some.every((column, i) => column === others[i]))

const isSameConflict = (one: Conflict, other: Conflict | undefined): boolean =>
  other !== undefined && isSame(one.on, other.on) && isSame(one.merged, other.merged)

/** Whose each statement of a batch is; leaving alone what is there takes two. */
export const ownersOf = (runs: readonly Run[]): Run[] =>
  runs.flatMap((run) => (run[0].conflict?.merged.length === 0 ? [run, run] : [run]))

export const splitRun = (run: Run): Run[] => run.map((operation): Run => [operation])
