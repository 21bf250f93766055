import { AppError, badRequest } from '../../../core/errors.ts'
import { type Order, orderWithKey } from '../../../db/rows/order.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { nearColumn, nearRelation } from '../../../db/schema/did-you-mean.ts'
import { isSortable } from '../../../db/schema/filter/operators.ts'
import { type PlannedFilter, planFilter } from '../../../db/schema/filter/plan.ts'
import type { Column, Table } from '../../../db/schema/snapshot.ts'
import { columnFor, columnsFor, isAllowed, type RelationStep, relationFor } from '../../../db/schema/viewer.ts'
import { hidesRows } from '../../../db/search/candidates.ts'
import type { Slot } from '../../../db/sql.ts'
import type { ListQuery, PageWindow, RowQuery, SortKey } from './parse.ts'
import { planFacets } from './stages/search/facets.ts'
import { planSearch } from './stages/search/plan.ts'
import { planDistance, planRegion } from './stages/spatial/plan.ts'
import type { ListDeps, Stage } from './stages/stage.ts'

/** The columns and relations of one JSON object. */
export type Shape = {
  readonly table: Table
  readonly columns: readonly Column[]
  readonly expand: readonly Expansion[]
  readonly cut: Slot | undefined
}

export type Expansion = RelationStep & {
  /** The key in the `expand` object. */
  readonly key: string
  readonly shape: Shape
  readonly order: readonly Order[]
}

export type ListPlan = {
  readonly shape: Shape
  readonly filter: PlannedFilter | undefined
  readonly order: readonly Order[]
  readonly window: PageWindow
  readonly skipTotal: boolean
  readonly estimate: Slot | undefined
  readonly isBounded: boolean
  readonly stages: readonly Stage[]
  /** All columns that the caller may read; stages may use them. */
  readonly readable: readonly Column[]
  readonly isNarrow: boolean
  readonly facetCount: number
}

export function planList(query: ListQuery, target: TableView, listDeps: ListDeps): ListPlan {
  const { schema, table, viewer } = target
  return {
    shape: planRow(query, target),
    filter: query.filter && planFilter(query.filter, table, { schema, viewer }),
    order: planOrder(query.sort, target),
    window: query.window,
    skipTotal: query.skipTotal,
    estimate: query.estimate,
    isBounded: query.isBounded,
    stages: planStages(query, target, listDeps),
    readable: columnsFor(table, viewer.role),
    isNarrow: isNarrow(query, target),
    facetCount: query.facets.length,
  }
}

/** A filter, a search or a policy may exclude rows of the table. */
export const isNarrow = ({ filter, search, regions }: ListQuery, { table, viewer }: TableView): boolean =>
  filter !== undefined || search !== undefined || regions.length > 0 || hidesRows(table, viewer.role)

const planStages = (query: ListQuery, target: TableView, listDeps: ListDeps): Stage[] => [
  ...(query.search ? [planSearch(query.search, target, listDeps)] : []),
  ...(query.facets.length > 0 ? [planFacets(query.facets, target)] : []),
  ...query.regions.map((filter) => planRegion(filter, target, listDeps.candidates)),
  ...(query.distance ? [planDistance(query.distance, target)] : []),
]

export function planRow({ fields, expand, cut }: RowQuery, target: TableView): Shape {
  const { table, viewer } = target
  const all = columnsFor(table, viewer.role)
  if (all.length === 0) throw new AppError('insufficient_privilege', 'insufficient permissions')
  const columns = fields?.map((name) => {
    const column = columnFor(table, name, viewer.role)
    if (!column)
      throw badRequest(
        `unknown column "${name}" in fields parameter`,
        'unknown_column',
        nearColumn(table, name, viewer),
      )
    return column
  })
  return { table, columns: columns ?? all, expand: planExpand(expand, cut, target), cut }
}

/** Merges paths that begin with the same relation into one expansion. */
function planExpand(
  paths: RowQuery['expand'],
  cut: Slot | undefined,
  { schema, table, viewer }: TableView,
): Expansion[] {
  const branches = new Map<string, { step: RelationStep; deeper: (readonly string[])[] }>()
  for (const [name = '', ...rest] of paths) {
    const step = relationFor(schema, table, name, viewer.role)
    if (!step) {
      const near = nearRelation(schema, table, name, viewer)
      throw badRequest(`unknown relation "${name}" in expand parameter`, 'unknown_relation', near)
    }
    const key = step.relation.type === 'many-to-one' ? step.relation.fieldName : name
    const branch = branches.get(key) ?? { step, deeper: [] }
    branches.set(key, branch)
    if (rest.length > 0) branch.deeper.push(rest)
  }
  return [...branches]
    .filter(([, { step }]) => isAllowed(schema, step.target, viewer))
    .map(([key, { step, deeper }]) => {
      const target: TableView = { schema, table: step.target, viewer }
      return {
        ...step,
        key,
        shape: planRow({ fields: undefined, expand: deeper, cut }, target),
        order: planOrder([], target),
      }
    })
}

export function planOrder(sort: readonly SortKey[], target: TableView): Order[] {
  const { table, viewer } = target
  const keys = sort.map(({ name, descending }) => {
    const column = columnFor(table, name, viewer.role)
    if (!column)
      throw badRequest(`unknown column "${name}" in sort parameter`, 'unknown_column', nearColumn(table, name, viewer))
    if (!isSortable(column))
      throw badRequest(`unsupported sort column "${name}" with type "${column.type}"`, 'invalid_sort')
    return { column, descending }
  })
  return orderWithKey(keys, target)
}
