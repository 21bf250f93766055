import { badRequest } from '../../../core/errors.ts'
import { type Cursors, requireKey } from '../../../db/rows/cursors.ts'
import { roundedUp } from '../../../db/rows/order.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import type { Slot, Slots } from '../../../db/sql.ts'
import { type Estimate, type ListQuery, parseList } from './parse.ts'
import { planOrder } from './plan.ts'

type Query = Readonly<Record<string, string>>

export type CursorQuery = ListQuery & {
  /** The sort keys of the last row of the previous page; undefined = the first page. */
  readonly after: readonly (Slot | null)[] | undefined
  /** See PageWindow. */
  readonly reach: number
}

/** Parameters that sort by something other than columns, or page by number. */
const INCOMPATIBLE = ['page', 'search', 'nearest', 'semantic_query', 'semantic', 'aggregate', 'group']

export function parseCursor(
  query: Query,
  slots: Slots,
  target: TableView,
  cursors: Cursors,
  estimate?: Estimate,
): CursorQuery {
  const combined = INCOMPATIBLE.find((name) => (query[name] ?? '') !== '')
  if (combined !== undefined) throw badRequest(`cursor cannot be combined with "${combined}"`, 'invalid_cursor')
  requireKey(target)
  const total = query['total'] ?? 'none'
  const listQuery = parseList({ ...query, total }, slots, target, estimate)
  const keys = query['cursor'] ? cursors.open(query['cursor'], target, planOrder(listQuery.sort, target)) : undefined
  return {
    ...listQuery,
    after: keys?.map((key) => (key === null ? null : slots.put(key))),
    // One row more than the page shows whether another page follows.
    reach: roundedUp(Number(slots.values[listQuery.window.perPage.index]) + 1),
  }
}
