import { badRequest } from '../../../core/errors.ts'
import { equals } from '../../../db/rows/keys.ts'
import { unionOf, withTables } from '../../../db/schema/candidates.ts'
import { operator } from '../../../db/schema/filter/operators.ts'
import type { Schema } from '../../../db/schema/snapshot.ts'
import { COMMA, EMPTY, Ident, integer, join, type Slot, type Sql, sql } from '../../../db/sql.ts'
import { orderBy, orderKeys, ROW, rowSelect, rowsOf, selectOf, totalOf, waysOf } from './build.ts'
import type { CursorQuery } from './cursor.ts'
import type { ListPlan, Order } from './plan.ts'

/** Between the keys of the last row and the page itself; no JSON text holds it. */
export const SEPARATOR = '\x1e'

const PAGE = new Ident('svc_page')
const UNION = sql` union all `

/** Answers the keys of the last row (nothing when no other row follows), the separator, and the page without its end. */
export function buildCursorPage(plan: ListPlan, { after, reach }: CursorQuery, schema: Schema): Sql {
  const { shape, stages, order, window } = plan
  if (stages.some((stage) => stage.order || stage.worked)) throw badRequest('cursor cannot be combined with "sort"')
  const keys = orderBy(orderKeys(order, ROW))
  const wanted = sql`${window.perPage}::int8 + 1`
  const ways = waysOf(plan)
  const part = (conditions: readonly Sql[]): Sql =>
    unionOf(ways.ways, (way) => sql`(${selectOf(plan, [], [...way, ...conditions])}${keys} limit ${integer(reach)})`)
  const parts = (after ? behind(order, after) : [[]]).map(part)
  const chain = parts.map(
    (rows, i) => sql`${partAt(i)} as materialized (select * from (${rows}) as ${ROW} limit ${stillWanted(wanted, i)})`,
  )
  const rows = join(
    parts.map((_, i) => sql`select * from ${partAt(i)}`),
    UNION,
  )
  const texts = order.map(({ column }) => sql`${ROW}.${column.ident}::text`)
  const select = join([rowSelect(schema, shape, ROW), ...stages.flatMap((stage) => stage.keys ?? [])], COMMA)
  const all = rowsOf(plan, ways)
  const more = stages.flatMap((stage) => (stage.envelope ? sql`, ${stage.envelope(all)}` : []))
  const total = totalOf(plan, all)
  const page = sql`${PAGE} as materialized (
      select (select pg_catalog.to_json(j.*) from (select ${select}) as j) as svc_item,
        pg_catalog.json_build_array(${join(texts, COMMA)}) as svc_keys, pg_catalog.row_number() over (${keys}) as svc_n
      from (${rows}) as ${ROW}${keys} limit ${wanted})`
  return sql`${withTables([...ways.sets, ...chain, page])}
    select pg_catalog.concat(
      (select svc_keys::text from ${PAGE} where svc_n = ${window.perPage}::int8
        and exists (select from ${PAGE} where svc_n > ${window.perPage}::int8)), ${SEPARATOR}::text,
      '{"items":', coalesce((select pg_catalog.json_agg(svc_item order by svc_n)::text from ${PAGE}
        where svc_n <= ${window.perPage}::int8), '[]'),
      ',"perPage":', ${window.perPage}::int8${join(more, EMPTY)}, ${total.text})${total.from}`
}

const partAt = (i: number): Ident => new Ident(`svc_part${i}`)

/** What the parts before have left of a page: mostly the first ones fill it, and the others are not even begun. */
const stillWanted = (wanted: Sql, i: number): Sql =>
  Array.from({ length: i }, (_, before) => sql`(select pg_catalog.count(*) from ${partAt(before)})`).reduce(
    (rest, count) => sql`${rest} - ${count}`,
    wanted,
  )

/**
 * The rows behind a place, as conditions of parts that each are one range of an index over the sort keys: first those
 * equal in all keys but the last and greater in it, and so on to those greater in the first. A single condition with OR
 * would be read from the beginning of the index.
 */
function behind(order: readonly Order[], after: readonly (Slot | null)[]): Sql[][] {
  const byKey: Sql[][][] = []
  const equal: Sql[] = []
  order.forEach((key, i) => {
    const value = after[i] ?? null
    byKey.unshift(greaterThan(key, value).map((greater) => [...equal, greater]))
    equal.push(value === null ? sql`${ROW}.${key.column.ident} is null` : equals(key.column, ROW, cast(key, value)))
  })
  return byKey.flat()
}

const cast = ({ column }: Order, value: Slot): Sql => sql`${value}::${column.castType}`

/** As PostgreSQL sorts: NULL is greater than any value. */
function greaterThan(key: Order, value: Slot | null): Sql[] {
  const { column, descending } = key
  const here = sql`${ROW}.${column.ident}`
  if (value === null) return descending ? [sql`${here} is not null`] : []
  const greater = sql`${here} ${operator(descending ? '<' : '>', column)} ${cast(key, value)}`
  return descending || !column.nullable ? [greater] : [greater, sql`${here} is null`]
}
