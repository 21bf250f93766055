import type { PlannedFilter } from '../../../db/schema/filter/plan.ts'
import type { Table } from '../../../db/schema/snapshot.ts'
import type { Expansion } from './plan.ts'

/** Tables at the steps of its paths. */
export function filterTables(filter: PlannedFilter | undefined): Table[] {
  if (!filter) return []
  return 'steps' in filter ? filter.steps.map(({ target }) => target) : filter.parts.flatMap(filterTables)
}

export const expandedTables = (expansions: readonly Expansion[]): Table[] =>
  expansions.flatMap(({ target, shape }) => [target, ...expandedTables(shape.expand)])
