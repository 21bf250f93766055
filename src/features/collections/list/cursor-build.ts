import { badRequest } from '../../../core/errors.ts'
import { fitsAnswer } from '../../../db/rows/answer-size.ts'
import { sortKeys } from '../../../db/rows/cursors.ts'
import { keysetPage } from '../../../db/rows/keyset-page.ts'
import { orderBy, orderKeys } from '../../../db/rows/order.ts'
import type { Schema } from '../../../db/schema/snapshot.ts'
import { unionOf, withTables } from '../../../db/search/candidates.ts'
import { COMMA, EMPTY, Ident, integerLiteral, join, ROW, type Sql, sql } from '../../../db/sql.ts'
import { branchesOf, requireFewRelations, rowSelect, rowsOf, selectOf, totalOf } from './build.ts'
import type { CursorQuery } from './cursor.ts'
import type { ListPlan } from './plan.ts'

/** Separates the page from the keys of its last row; JSON text cannot contain it. */
export const CURSOR_SEPARATOR = '\x1e'

const PAGE = new Ident('svc_page')

/**
 * Returns the page without its closing brace, the separator, and the keys of the last row (empty on the last page). The
 * items come first: building them refuses a page that is too large before all of its rows are made.
 */
export function buildCursorPage(plan: ListPlan, { after, reach }: CursorQuery, schema: Schema): Sql {
  const { shape, stages, order, window } = plan
  if (stages.some((stage) => stage.order || stage.computed))
    throw badRequest('cursor cannot be combined with "sort"', 'invalid_cursor')
  const keys = orderBy(orderKeys(order, ROW))
  const wanted = sql`${window.perPage}::int8 + 1`
  const ways = branchesOf(plan)
  const { tables, rows } = keysetPage(after, order, ROW, wanted, (conditions) =>
    unionOf(
      ways.branches,
      (way) => sql`(${selectOf(plan, [], [...way, ...conditions])}${keys} limit ${integerLiteral(reach)})`,
    ),
  )
  requireFewRelations(plan, tables.length * ways.branches.length + plan.facetCount + 1)
  const select = join([rowSelect(schema, shape, ROW), ...stages.flatMap((stage) => stage.keys ?? [])], COMMA)
  const all = rowsOf(plan, ways)
  const more = stages.flatMap((stage) => (stage.envelope ? sql`, ${stage.envelope(all)}` : []))
  const total = totalOf(plan, all)
  const page = sql`${PAGE} as materialized (
      select (select pg_catalog.to_json(j.*) from (select ${select}) as j) as svc_item,
        ${sortKeys(order, ROW)} as svc_keys, pg_catalog.row_number() over (${keys}) as svc_n
      from (${rows}) as ${ROW}${keys} limit ${wanted})`
  return sql`${withTables([...ways.tables, ...tables, page])}
    select pg_catalog.concat(
      '{"items":', coalesce((select case when ${fitsAnswer(sql`svc_item`)} then pg_catalog.json_agg(svc_item) end::text
        from ${PAGE} where svc_n <= ${window.perPage}::int8), '[]'),
      ',"perPage":', ${window.perPage}::int8${join(more, EMPTY)}, ${total.text}, ${CURSOR_SEPARATOR}::text,
      (select svc_keys::text from ${PAGE} where svc_n = ${window.perPage}::int8
        and exists (select from ${PAGE} where svc_n > ${window.perPage}::int8)))${total.from}`
}
