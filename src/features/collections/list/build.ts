import { keyIs } from '../../../db/rows/keys.ts'
import { buildFilter, joined } from '../../../db/schema/filter/build.ts'
import { jsonColumns } from '../../../db/schema/row-json.ts'
import type { Schema, Table } from '../../../db/schema/snapshot.ts'
import { COMMA, EMPTY, Ident, join, type Sql, slotAt, sql } from '../../../db/sql.ts'
import type { Window } from './parse.ts'
import type { Expansion, ListPlan, Order, Shape } from './plan.ts'

const ROW = new Ident('svc_t')
const MAX_EXPANDED = 1000

/**
 * The whole answer in one statement. The count is a query of its own beside the page, so that neither spoils the
 * other's plan.
 */
export function buildList(plan: ListPlan, schema: Schema): Sql {
  const { shape, window } = plan
  const where = plan.filter ? sql` where ${buildFilter(plan.filter, shape.table, ROW)}` : EMPTY
  const reached = sql`select ${rowSelect(schema, shape, ROW)} from ${shape.table.ident} as ${ROW}${where}${orderBy(plan.order, ROW)}`
  const items = sql`(select pg_catalog.json_agg(svc_page.*)::text from (${windowOf(reached, window)}) as svc_page)`
  const head = sql`'{"items":', coalesce(${items}, '[]'), ',"page":', ${window.page}::int8, ',"perPage":', ${window.perPage}::int8`
  if (plan.skipTotal) return sql`select pg_catalog.concat(${head}, ',"totalItems":-1,"totalPages":-1}')`
  return sql`select pg_catalog.concat(${head}, ',"totalItems":', svc_total.n, ',"totalPages":',
      (svc_total.n + ${window.perPage}::int8 - 1) / ${window.perPage}::int8, '}')
    from (select pg_catalog.count(*) as n from ${shape.table.ident} as ${ROW}${where}) as svc_total`
}

/**
 * How far a list reaches stands in the text: of an unknown limit PostgreSQL expects a tenth of the table, and sorts it
 * all where it could have walked an index. What is cut from it is a value.
 */
const windowOf = (rows: Sql, { reach, perPage, offset }: Window): Sql =>
  sql`select * from (${rows} limit ${integer(reach)}) as svc_reached limit ${perPage}::int8 offset ${offset}::int8`

/** The first slots hold the key. */
export function buildRead(shape: Shape, schema: Schema): Sql {
  const key = shape.table.primaryKey.map((_, i) => slotAt(i))
  return sql`select pg_catalog.to_json(svc_row.*)::text from (
    select ${rowSelect(schema, shape, ROW)} from ${shape.table.ident} as ${ROW} where ${keyIs(shape.table, ROW, key)}
  ) as svc_row`
}

/** The select list of a shape: its columns and, when asked for, the object of its relations. */
function rowSelect(schema: Schema, { table, columns, expand }: Shape, row: Ident, depth = 1): Sql {
  if (expand.length === 0) return jsonColumns(schema, columns, row)
  const relations = expand.map(
    (expansion) => sql`${expansion.key}::text, ${expanded(schema, expansion, table, row, depth)}`,
  )
  const shown = jsonColumns(
    schema,
    columns.filter(({ name }) => name !== 'expand'),
    row,
  )
  return sql`${shown}, pg_catalog.json_build_object(${join(relations, COMMA)}) as expand`
}

function expanded(schema: Schema, expansion: Expansion, from: Table, row: Ident, depth: number): Sql {
  const { relation, target, shape, order } = expansion
  const there = new Ident(`svc_e${depth}`)
  const select = rowSelect(schema, shape, there, depth + 1)
  const rows = sql`select ${select} from ${target.ident} as ${there} where ${joined(expansion, from, row, there)}`
  if (relation.type === 'many-to-one') {
    return sql`(select pg_catalog.to_json(j.*) from (${rows} limit 1) as j)`
  }
  return sql`coalesce((select pg_catalog.json_agg(j.*) from (
    ${rows}${orderBy(order, there)} limit ${integer(MAX_EXPANDED)}) as j), '[]'::pg_catalog.json)`
}

function orderBy(order: readonly Order[], row: Ident): Sql {
  const keys = order.map(({ column, descending }) =>
    descending ? sql`${row}.${column.ident} desc` : sql`${row}.${column.ident}`,
  )
  return keys.length > 0 ? sql` order by ${join(keys, COMMA)}` : EMPTY
}

const DIGITS = [sql`0`, sql`1`, sql`2`, sql`3`, sql`4`, sql`5`, sql`6`, sql`7`, sql`8`, sql`9`]

const integer = (n: number): Sql =>
  join(
    [...String(n)].map((digit) => DIGITS[Number(digit)] ?? EMPTY),
    EMPTY,
  )
