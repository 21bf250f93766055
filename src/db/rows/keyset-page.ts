import { isNull, operator } from '../schema/filter/operators.ts'
import { Ident, join, type Slot, type Sql, sql } from '../sql.ts'
import { equals } from './keys.ts'
import type { Order } from './order.ts'

/** A sort value of the last row, or its slot. */
export type SortValue = Slot | string | null

/**
 * At most `limit` rows after the row with the sort values `after`: tables of a WITH, and the select that reads them,
 * unordered. Each table is `select` under conditions that are one range of an index over the sort keys. Without `after`
 * there is one table, from the beginning.
 */
export function keysetPage(
  after: readonly SortValue[] | undefined,
  order: readonly Order[],
  row: Ident,
  limit: Sql,
  select: (conditions: readonly Sql[]) => Sql,
): { tables: Sql[]; rows: Sql } {
  const parts = after ? conditionsAfter(order, after, row) : [[]]
  return {
    tables: parts.map(
      (conditions, i) =>
        sql`${partAt(i)} as materialized (select * from (${select(conditions)}) as ${row} limit ${remaining(limit, i)})`,
    ),
    rows: join(
      parts.map((_, i) => sql`select * from ${partAt(i)}`),
      sql` union all `,
    ),
  }
}

const partAt = (i: number): Ident => new Ident(`svc_part${i}`)

/** The limit minus the rows of earlier parts. Mostly the first parts fill the page, and the rest never runs. */
const remaining = (limit: Sql, i: number): Sql =>
  Array.from({ length: i }, (_, before) => sql`(select pg_catalog.count(*) from ${partAt(before)})`).reduce(
    (rest, count) => sql`${rest} - ${count}`,
    limit,
  )

/**
 * The conditions of each part: first the rows equal in all keys but the last and greater in it, and so on to those
 * greater in the first key. PostgreSQL would read one condition with OR from the beginning of the index.
 */
function conditionsAfter(order: readonly Order[], after: readonly SortValue[], row: Ident): Sql[][] {
  const byKey: Sql[][][] = []
  const equal: Sql[] = []
  order.forEach((key, i) => {
    const value = after[i] ?? null
    byKey.unshift(greaterThan(key, value, row).map((greater) => [...equal, greater]))
    equal.push(
      value === null ? isNull(key.column, sql`${row}.${key.column.ident}`) : equals(key.column, row, cast(key, value)),
    )
  })
  return byKey.flat()
}

const cast = ({ column }: Order, value: Slot | string): Sql => sql`${value}::${column.castType}`

/** As PostgreSQL sorts: NULL is greater than any value. */
function greaterThan(key: Order, value: SortValue, row: Ident): Sql[] {
  const { column, descending } = key
  const here = sql`${row}.${column.ident}`
  if (value === null) return descending ? [isNull(column, here, true)] : []
  const greater = sql`${here} ${operator(descending ? '<' : '>', column)} ${cast(key, value)}`
  return descending || !column.nullable ? [greater] : [greater, isNull(column, here)]
}
