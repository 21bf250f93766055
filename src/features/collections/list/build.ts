import { boundedArray, partsInside, partsOfEach } from '../../../db/rows/answer-size.ts'
import { keyText } from '../../../db/rows/change-logging.ts'
import { keyIs } from '../../../db/rows/keys.ts'
import { keyJson, liveRows } from '../../../db/rows/live-query.ts'
import { orderBy, orderKeys } from '../../../db/rows/order.ts'
import { buildFilter, joined } from '../../../db/schema/filter/build.ts'
import { invalidFilter } from '../../../db/schema/filter/parse.ts'
import { relationsIn } from '../../../db/schema/filter/plan.ts'
import { rowsIn } from '../../../db/schema/row-image.ts'
import { jsonColumns } from '../../../db/schema/row-json.ts'
import type { Column, Schema, Table } from '../../../db/schema/snapshot.ts'
import { type CandidateBranches, candidateBranches, unionOf, withTables } from '../../../db/search/candidates.ts'
import {
  AND,
  COMMA,
  EMPTY,
  Ident,
  integerLiteral,
  join,
  ROW,
  type Slot,
  type Sql,
  slotAt,
  sql,
} from '../../../db/sql.ts'
import { cutColumns } from './cut.ts'
import type { PageWindow } from './parse.ts'
import type { Expansion, ListPlan, Shape } from './plan.ts'

const MAX_EXPANDED = 1000

/**
 * The whole response in one statement. The count is a separate subquery, so that page and count are planned
 * independently.
 */
export function buildList(plan: ListPlan, schema: Schema): Sql {
  const { shape, window, stages } = plan
  // The page, the total, and one for each facet.
  requireFewRelations(plan, 2 + plan.facetCount)
  const { found, isMaterialized, rows, order } = sourceOf(plan)
  const select = join([rowSelect(schema, shape, ROW), ...stages.flatMap((stage) => stage.keys ?? [])], COMMA)
  // Stage keys may be expensive, so that only the rows of the page get them.
  const page = isMaterialized
    ? sql`select ${select} from (${windowOf(sql`select * from ${rows}${order}`, window)}) as ${ROW}`
    : windowOf(sql`select ${select} from ${rows}${order}`, window)
  const items = mayBeLarge(plan)
    ? sql`${boundedArray(page)}::text`
    : sql`(select pg_catalog.json_agg(svc_page.*)::text from (${page}) as svc_page)`
  const more = stages.flatMap((stage) => (stage.envelope ? sql`, ${stage.envelope(rows)}` : []))
  const head = sql`${found}select pg_catalog.concat('{"items":', coalesce(${items}, '[]'),
    ',"page":', ${window.page}::int8, ',"perPage":', ${window.perPage}::int8${join(more, EMPTY)}`
  const { text, from } = totalOf(plan, rows)
  return sql`${head}, ${plan.skipTotal ? UNCOUNTED : text}, '}')${from}`
}

/**
 * The rows of the page one by one, each with its key; see liveRows. What decides their order is part of their digests, so
 * that rows which stay the same keep their order.
 */
export function buildLiveList(plan: ListPlan, schema: Schema, key: readonly Column[], known: Slot): Sql {
  const { shape, window, stages, order: keys } = plan
  requireFewRelations(plan, 1)
  const { found, rows, order } = sourceOf(plan)
  const select = join([rowSelect(schema, shape, ROW), ...stages.flatMap((stage) => stage.keys ?? [])], COMMA)
  const json = sql`(select pg_catalog.row_to_json(svc_shown.*)::text from (select ${select}) as svc_shown)`
  const names = key.length > 0 ? keyJson(key.map(({ ident }) => sql`${ROW}.${ident}`)) : sql`null::text`
  const sorted = keys.map(({ column }) => sql`${ROW}.${column.ident}`)
  const place = sorted.length > 0 ? sql`row(${join(sorted, COMMA)})::text` : sql`null::text`
  const page = sql`select ${json} as j, ${names} as k, ${keyText(key)} as p, ${place} as o from ${rows}${order}`
  return sql`${found}${liveRows(windowOf(page, window), known, key.length > 0)}`
}

/** A short page of rows with one relation to one row is built without counting its bytes. */
const mayBeLarge = ({ window, shape: { expand } }: ListPlan): boolean =>
  window.isLong ||
  expand.length > 1 ||
  expand.some(({ relation, shape }) => relation.type === 'one-to-many' || shape.expand.length > 0)

/** A WITH where one is needed, a FROM with its WHERE, and an ORDER BY. */
export function sourceOf(plan: ListPlan): { found: Sql; isMaterialized: boolean; rows: Sql; order: Sql } {
  const tables = materializedRows(plan)
  return {
    found: withTables(tables ?? []),
    isMaterialized: tables !== undefined,
    rows: tables ? sql`svc_found as ${ROW}` : sql`${rowsIn(plan.shape.table)} as ${ROW}${listConditions(plan)}`,
    order: orderBy([...plan.stages.flatMap((stage) => stage.order ?? []), ...orderKeys(plan.order, ROW)]),
  }
}

/** Rows that are counted where an estimate is asked for and none may be given. */
const MAX_COUNTED = sql`10000`

const UNCOUNTED = sql`',"totalItems":-1,"totalPages":-1'`

/** The totals as JSON text, and the FROM that it reads; both are empty if totals are skipped. */
export function totalOf({ skipTotal, estimate, isBounded, window }: ListPlan, rows: Sql): { text: Sql; from: Sql } {
  const totals = (n: Sql): Sql =>
    sql`',"totalItems":', ${n}, ',"totalPages":', (${n} + ${window.perPage}::int8 - 1) / ${window.perPage}::int8`
  if (estimate) return { text: sql`${totals(sql`${estimate}::int8`)}, ',"totalIsEstimate":true'`, from: EMPTY }
  if (skipTotal) return { text: sql`''`, from: EMPTY }
  if (isBounded) {
    const counted = sql`select from ${rows} limit ${MAX_COUNTED} operator(pg_catalog.+) 1`
    return {
      text: sql`${totals(sql`least(svc_total.n, ${MAX_COUNTED})`)},
        case when svc_total.n operator(pg_catalog.>) ${MAX_COUNTED} then ',"totalIsEstimate":true' end`,
      from: sql` from (select pg_catalog.count(*) as n from (${counted}) as svc_counted) as svc_total`,
    }
  }
  return {
    text: totals(sql`svc_total.n`),
    from: sql` from (select pg_catalog.count(*) as n from ${rows}) as svc_total`,
  }
}

/** Its plan has the estimated number of rows. */
export const buildExplain = (plan: ListPlan): Sql =>
  sql`explain (format json) select from ${rowsIn(plan.shape.table)} as ${ROW}${listConditions(plan)}`

/** Relations in all copies of the filter in one statement; each copy is planned by itself. */
const MAX_RELATIONS = 200

export function requireFewRelations({ filter }: ListPlan, copies: number): void {
  if (relationsIn(filter) * copies > MAX_RELATIONS) throw invalidFilter('too many relations for these parameters')
}

export function listConditions({ filter, shape, stages }: ListPlan, ...more: Sql[]): Sql {
  const filters = filter ? [buildFilter(filter, shape.table, ROW)] : []
  const conditions = [...more, ...filters, ...stages.flatMap((stage) => stage.conditions ?? [])]
  return conditions.length > 0 ? sql` where ${join(conditions, AND)}` : EMPTY
}

/** Tables of a WITH, the last of which (`svc_found`) has the rows of the list. Undefined unless a stage needs it. */
export function materializedRows(plan: ListPlan): Sql[] | undefined {
  const worked = plan.stages.flatMap((stage) => stage.computed ?? [])
  const { tables, branches } = branchesOf(plan)
  if (worked.length === 0 && tables.length === 0) return undefined
  return [...tables, sql`svc_found as materialized (${unionOf(branches, (way) => selectOf(plan, worked, way))})`]
}

/** How the table is read. See Stage.candidates. */
export const branchesOf = ({ stages }: ListPlan, name?: string): CandidateBranches =>
  candidateBranches(
    stages.flatMap((stage) => stage.candidates ?? []),
    ROW,
    name,
  )

/** The columns of the rows of one way, and more. */
export function selectOf(plan: ListPlan, more: readonly Sql[], way: readonly Sql[]): Sql {
  const columns = join([...plan.readable.map(({ ident }) => sql`${ROW}.${ident}`), ...more], COMMA)
  return sql`select ${columns} from ${rowsIn(plan.shape.table)} as ${ROW}${listConditions(plan, ...way)}`
}

/** The rows of the list as a FROM with its WHERE, for a statement that has the sets in its WITH. */
export const rowsOf = (plan: ListPlan, { tables, branches }: CandidateBranches): Sql =>
  tables.length > 0
    ? sql`(${unionOf(branches, (way) => selectOf(plan, [], way))}) as ${ROW}`
    : sql`${rowsIn(plan.shape.table)} as ${ROW}${listConditions(plan)}`

/**
 * `reach` is a literal, because for an unknown limit PostgreSQL expects a tenth of the table and sorts it instead of using
 * an index. `perPage` and `offset` are values.
 */
const windowOf = (rows: Sql, { reach, perPage, offset }: PageWindow): Sql =>
  sql`select * from (${rows} limit ${integerLiteral(reach)}) as svc_reached limit ${perPage}::int8 offset ${offset}::int8`

/** Reads one record; the first slots hold its key. */
export function buildRead(shape: Shape, schema: Schema): Sql {
  const key = shape.table.primaryKey.map((_, i) => slotAt(i))
  return sql`select pg_catalog.to_json(svc_row.*)::text from (
    select ${rowSelect(schema, shape, ROW)} from ${rowsIn(shape.table)} as ${ROW} where ${keyIs(shape.table, ROW, key)}
  ) as svc_row`
}

/**
 * The select list of a shape: its columns and, if there are any, an object of its relations, which have a part of the answer
 * together.
 */
export function rowSelect(
  schema: Schema,
  { table, columns, expand, cut }: Shape,
  row: Ident,
  depth = 1,
  inside = partsInside(1),
): Sql {
  const written = (shown: readonly Column[]): Sql =>
    cut ? cutColumns(schema, shown, row, cut) : jsonColumns(schema, shown, row)
  if (expand.length === 0) return written(columns)
  const inner = partsOfEach(inside, expand.length)
  const relations = expand.map(
    (expansion) => sql`${expansion.key}::text, ${expanded(schema, expansion, table, row, depth, inner)}`,
  )
  const shown = written(columns.filter(({ name }) => name !== 'expand'))
  return sql`${shown}, pg_catalog.json_build_object(${join(relations, COMMA)}) as expand`
}

function expanded(schema: Schema, expansion: Expansion, from: Table, row: Ident, depth: number, parts: number): Sql {
  const { relation, target, shape, order } = expansion
  const there = new Ident(`svc_e${depth}`)
  const isOne = relation.type === 'many-to-one'
  const select = rowSelect(schema, shape, there, depth + 1, isOne ? parts : partsInside(parts))
  const rows = sql`select ${select} from ${rowsIn(target)} as ${there} where ${joined(expansion, from, row, there)}`
  if (isOne) {
    return sql`(select pg_catalog.to_json(j.*) from (${rows} limit 1) as j)`
  }
  const first = sql`${rows}${orderBy(orderKeys(order, there))} limit ${integerLiteral(MAX_EXPANDED)}`
  return sql`coalesce(${boundedArray(first, parts)}, '[]'::pg_catalog.json)`
}
