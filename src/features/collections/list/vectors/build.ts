import { fitsAnswer } from '../../../../db/rows/answer-size.ts'
import { orderKeys } from '../../../../db/rows/order.ts'
import type { Schema } from '../../../../db/schema/snapshot.ts'
import { unionOf, withTables } from '../../../../db/search/candidates.ts'
import { COMMA, integerLiteral, join, ROW, type Sql, sql } from '../../../../db/sql.ts'
import { branchesOf, listConditions, rowSelect } from '../build.ts'
import type { ListPlan } from '../plan.ts'
import { distanceOf, type Vector } from './distance.ts'

/** False for NaN, which PostgreSQL sorts above infinity: the distance of a zero vector, or an overflow. */
const isDistance = (value: Sql): Sql => sql`${value} > '-infinity'::float8 and ${value} < 'infinity'::float8`

/**
 * Selects the nearest rows ordered by distance alone, so that a vector index can be used. Rows without a distance sort
 * last and are dropped afterwards. `sets` are tables of the WITH that this reads.
 */
export function nearestRows(
  plan: ListPlan,
  vector: Vector,
  schema: Schema,
  columns: readonly Sql[],
  limit: number,
): { tables: readonly Sql[]; rows: Sql } {
  const { from, value, conditions } = distanceOf(vector, schema)
  const { tables, branches } = branchesOf(plan, 'svc_near_set')
  const nearest = unionOf(
    branches,
    (way) => sql`(select ${join(columns, COMMA)}, ${value}::float8 as svc_distance
      from ${plan.shape.table.ident} as ${ROW}${from}${listConditions(plan, ...way, ...conditions)} order by ${value}
      limit ${limitOf(plan, limit)})`,
  )
  return { tables: tables, rows: sql`select * from (${nearest}) as svc_n where ${isDistance(sql`svc_n.svc_distance`)}` }
}

/**
 * If filters and policies pass few rows, a vector index scan skips many, a cost that PostgreSQL underestimates. For a limit
 * that it cannot see it expects a tenth of the rows: it then uses the vector index if many rows pass, and otherwise another
 * index and a sort.
 */
const limitOf = ({ isNarrow }: ListPlan, limit: number): Sql =>
  isNarrow ? sql`(select ${integerLiteral(limit)})` : integerLiteral(limit)

/** In the place of a total that was not asked for. */
export const UNCOUNTED = sql`-1`

/** The whole response; ties are sorted by key. With `isFirstScan` it is NULL if the page is not full. */
export function buildNearest(plan: ListPlan, vector: Vector, schema: Schema, isFirstScan: boolean): Sql {
  const { shape, window, readable } = plan
  const columns = readable.map(({ ident }) => sql`${ROW}.${ident}`)
  const order = join([sql`${ROW}.svc_distance`, ...orderKeys(plan.order, ROW)], COMMA)
  const { tables, rows } = nearestRows(plan, vector, schema, columns, window.reach)
  const found = plan.skipTotal ? UNCOUNTED : sql`pg_catalog.count(*)`
  const answer = sql`pg_catalog.concat('{"items":', coalesce(case when ${fitsAnswer(sql`svc_page.j`)} then pg_catalog.json_agg(svc_page.j) end::text, '[]'),
      ',"page":1,"perPage":', ${window.perPage}::int8, ',"totalItems":', ${found},
      ',"totalPages":', least(${found}, 1), '}')`
  const result = isFirstScan ? sql`case when pg_catalog.count(*) = ${window.perPage}::int8 then ${answer} end` : answer
  return sql`${withTables(tables)}select ${result}
    from (
      select pg_catalog.row_to_json(svc_row.*) as j from (
        select ${rowSelect(schema, shape, ROW)}, ${ROW}.svc_distance as _distance
        from (${rows}) as ${ROW}
        order by ${order} limit ${window.perPage}::int8
      ) as svc_row offset 0
    ) as svc_page`
}
