import { badRequest } from '../../core/errors.ts'
import { type Cursors, requireKey } from '../../db/rows/cursors.ts'
import type { SortValue } from '../../db/rows/keyset-page.ts'
import { type Order, orderWithKey } from '../../db/rows/order.ts'
import type { TableView } from '../../db/rows/table-view.ts'
import type { NamedTable } from './names.ts'
import type { WhereInput } from './where.ts'

const MAX_ROWS = 1000

/** The requested part of the ordered rows. */
export type ListWindow = {
  readonly order: readonly Order[]
  readonly limit: number
  readonly offset: number
  /** The sort keys of the row before the first one. */
  readonly after: readonly SortValue[] | undefined
}

/** Null counts as absent; larger limits count as MAX_ROWS. */
export function listWindow(args: WhereInput, table: NamedTable, target: TableView, cursors: Cursors): ListWindow {
  const order = orderWithKey(sortOf(args['order_by'], table), target)
  const byCursor = ['first', 'after'].find((name) => isGiven(args[name]))
  const byNumber = ['limit', 'offset'].find((name) => isGiven(args[name]))
  if (byCursor && byNumber) throw badRequest(`${byCursor} cannot be combined with "${byNumber}"`, 'invalid_cursor')
  return {
    order,
    limit: countOf(args, byCursor ? 'first' : 'limit') ?? MAX_ROWS,
    offset: countOf(args, 'offset') ?? 0,
    after: args['after'] ? openCursor(args['after'] as string, target, order, cursors) : undefined,
  }
}

const isGiven = (value: unknown): boolean => value !== undefined && value !== null

function countOf(args: WhereInput, name: 'first' | 'limit' | 'offset'): number | undefined {
  const value = args[name]
  if (!isGiven(value)) return undefined
  if ((value as number) < 0) throw badRequest(`${name} must not be negative`)
  return name === 'offset' ? (value as number) : Math.min(value as number, MAX_ROWS)
}

function openCursor(
  cursor: string,
  target: TableView,
  order: readonly Order[],
  cursors: Cursors,
): readonly SortValue[] {
  requireKey(target)
  return cursors.open(cursor, target, order)
}

function sortOf(orderBy: unknown, table: NamedTable): Order[] {
  return ((orderBy ?? []) as WhereInput[]).map((entry) => {
    const [[name, direction] = [], ...more] = Object.entries(entry).filter(([, value]) => value !== undefined)
    const column = name === undefined ? undefined : table.columns.get(name)
    if (!column || more.length > 0 || direction === null) {
      throw badRequest('an order_by object has exactly one column; use a list for several')
    }
    return { column, descending: direction === 'DESC' }
  })
}
