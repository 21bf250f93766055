import type { Column } from '../schema/snapshot.ts'
import { keyFor } from '../schema/viewer.ts'
import { EMPTY, type Ident, join, type Sql, sql } from '../sql.ts'
import type { TableView } from './table-view.ts'

export type Order = { readonly column: Column; readonly descending: boolean }

/** The requested order, each column once, then the primary key, so that pages never overlap. */
export function orderWithKey(requested: readonly Order[], { table, viewer }: TableView): Order[] {
  const order = new Map<Column, Order>()
  const key = keyFor(table, viewer.role).map((column) => ({ column, descending: false }))
  for (const one of [...requested, ...key]) if (!order.has(one.column)) order.set(one.column, one)
  return [...order.values()]
}

export const orderKeys = (order: readonly Order[], row: Ident): Sql[] =>
  order.map(({ column, descending }) => (descending ? sql`${row}.${column.ident} desc` : sql`${row}.${column.ident}`))

export const orderBy = (keys: readonly Sql[]): Sql => (keys.length > 0 ? sql` order by ${join(keys)}` : EMPTY)

/** Rounds up to 1, 2 or 5 times a power of ten, so that limits in the text of a statement make few statements. */
export function roundedUp(rows: number): number {
  for (let power = 1; ; power *= 10) {
    for (const step of [power, 2 * power, 5 * power]) if (rows <= step) return step
  }
}
