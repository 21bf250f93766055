import { badRequest } from '../../../core/errors.ts'
import { type Cursors, requireKey } from '../../../db/rows/cursors.ts'
import { roundedUp } from '../../../db/rows/order.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import type { Slot, Slots } from '../../../db/sql.ts'
import { type ListQuery, parseList } from './parse.ts'
import { planOrder } from './plan.ts'

type Query = Readonly<Record<string, string>>

export type CursorQuery = ListQuery & {
  /** The sort keys of the last row of the page before, null where it has NULL; undefined = the first page. */
  readonly after: readonly (Slot | null)[] | undefined
  /** No row beyond this one is wanted; see Window. */
  readonly reach: number
}

/** What orders rows by something else than their columns, or pages by number. */
const FOREIGN = ['page', 'search', 'nearest', 'semantic_query', 'semantic', 'aggregate', 'group']

export function parseCursor(
  query: Query,
  slots: Slots,
  target: TableView,
  cursors: Cursors,
  estimate?: number,
): CursorQuery {
  const combined = FOREIGN.find((name) => (query[name] ?? '') !== '')
  if (combined !== undefined) throw badRequest(`cursor cannot be combined with "${combined}"`, 'invalid_cursor')
  requireKey(target)
  const total = query['total'] ?? 'none'
  const asked = parseList({ ...query, total }, slots, target, estimate)
  const keys = query['cursor'] ? cursors.open(query['cursor'], target, planOrder(asked.sort, target)) : undefined
  return {
    ...asked,
    after: keys?.map((key) => (key === null ? null : slots.put(key))),
    // One more than the page tells whether another follows.
    reach: roundedUp(Number(slots.values[asked.window.perPage.index]) + 1),
  }
}
