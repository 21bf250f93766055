import { type AppError, badRequest } from '../../../core/errors.ts'
import { isMissingFunction } from '../../../db/pg-errors.ts'
import { fitsAnswer } from '../../../db/rows/answer-size.ts'
import { keyJson, liveRows } from '../../../db/rows/live-query.ts'
import { orderBy } from '../../../db/rows/order.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { nearColumn } from '../../../db/schema/did-you-mean.ts'
import { isSortable } from '../../../db/schema/filter/operators.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import { columnFor } from '../../../db/schema/viewer.ts'
import { withTables } from '../../../db/search/candidates.ts'
import { COMMA, EMPTY, Ident, join, ROW, type Slot, type Slots, type Sql, sql } from '../../../db/sql.ts'
import { branchesOf, rowsOf, totalOf } from './build.ts'
import { type ListQuery, names, parseList, parseSort, type SortKey } from './parse.ts'
import type { ListPlan } from './plan.ts'

type Query = Readonly<Record<string, string>>

/** The parsed query of aggregates, with the client's names; its own `sort` is empty. */
export type AggregateQuery = ListQuery & {
  readonly aggregates: readonly { readonly fn: string; readonly name: string | undefined }[]
  readonly group: readonly string[]
  readonly groupSort: readonly SortKey[]
}

/** Parameters that apply to rows, not to groups. */
const INCOMPATIBLE = [
  'expand',
  'fields',
  'search',
  'cursor',
  'facets',
  'highlight',
  'nearest',
  'semantic_query',
  'semantic',
]
const MAX_AGGREGATES = 20

export function parseAggregate(query: Query, slots: Slots, target: TableView): AggregateQuery {
  const incompatible = INCOMPATIBLE.find((name) => query[name] !== undefined)
  if (incompatible !== undefined) throw badRequest(`aggregate cannot be combined with "${incompatible}"`)
  const { aggregate, group, sort, ...rest } = query
  const aggregates = [...new Set(names(aggregate))].map((text) => {
    const [, fn = '', name] = /^([^()]*)(?:\((.*)\))?$/s.exec(text) ?? []
    return { fn: fn.trim(), name: name?.trim() }
  })
  if (aggregates.length === 0) throw unknownFunction('')
  if (aggregates.length > MAX_AGGREGATES) throw badRequest('too many aggregates')
  return {
    ...parseList(rest, slots, target),
    aggregates,
    group: [...new Set(names(group))],
    groupSort: parseSort(sort),
  }
}

const unknownFunction = (fn: string): AppError => badRequest(`unknown aggregate function: ${fn.slice(0, 100)}`)

/** A key of the items. PostgreSQL cuts names at 63 bytes, so columns have names of ours. */
type OutputColumn = { readonly name: string; readonly value: Sql }

const FUNCTIONS: Readonly<Record<string, (value: Sql) => Sql>> = {
  count_distinct: (value) => sql`pg_catalog.count(distinct ${value})`,
  sum: (value) => sql`pg_catalog.sum(${value})`,
  avg: (value) => sql`pg_catalog.avg(${value})`,
  min: (value) => sql`pg_catalog.min(${value})`,
  max: (value) => sql`pg_catalog.max(${value})`,
}

const isNumeric = ({ baseType }: Column): boolean => /^(int[248]|float[48]|numeric)$/.test(baseType)

/** The groups: a WITH, the columns of each, and its order. */
function groupsOf(query: AggregateQuery, plan: ListPlan, target: TableView) {
  const groups = query.group.map((name) => groupOf(name, target))
  const aggregates = query.aggregates.map(({ fn, name }) => aggregateOf(fn, name, target))
  const outputs = [...groups, ...aggregates]
  const twice = outputs.find(({ name }, i) => outputs.findIndex((other) => other.name === name) !== i)
  if (twice) throw badRequest(`aggregate conflicts with column "${twice.name}"`)
  const select = outputs.map(({ value }, i) => sql`${value} as ${columnAt(i)}`)
  const by =
    groups.length > 0
      ? sql` group by ${join(
          groups.map(({ value }) => value),
          COMMA,
        )}`
      : EMPTY
  const ways = branchesOf(plan)
  const made = sql`svc_groups as materialized (select ${join(select, COMMA)} from ${rowsOf(plan, ways)}${by})`
  return {
    outputs,
    keys: groups.map((_, i) => sql`${columnAt(i)}`),
    order: orderBy([...sortKeys(query.groupSort, outputs), ...groups.map((_, i) => sql`${columnAt(i)}`)]),
    found: withTables([...ways.tables, made]),
  }
}

/** The whole response in one statement. The groups are computed once, for the page and the total. */
export function buildAggregate(query: AggregateQuery, plan: ListPlan, target: TableView): Sql {
  const { outputs, order, found } = groupsOf(query, plan, target)
  const { perPage, page, offset } = plan.window
  const { text, from } = totalOf({ ...plan, skipTotal: false, estimate: undefined, isBounded: false }, sql`svc_groups`)
  return sql`${found}
    select pg_catalog.concat('{"items":[', (select case when ${fitsAnswer(sql`svc_page.item`)}
        then pg_catalog.string_agg(svc_page.item, ',') end from (
          select ${itemOf(outputs)} as item from svc_groups${order} limit ${perPage}::int8 offset ${offset}::int8) as svc_page), ']',
      ',"page":', ${page}::int8, ',"perPage":', ${perPage}::int8, ${text}, '}')${from}`
}

/** One row for each group, whose key is the array of its values. */
export function buildLiveAggregate(query: AggregateQuery, plan: ListPlan, target: TableView, known: Slot): Sql {
  const { outputs, keys, order, found } = groupsOf(query, plan, target)
  const page = sql`select ${itemOf(outputs)} as j, ${keyJson(keys, true)} as k, null::text as p, null::text as o
    from svc_groups${order} limit ${plan.window.perPage}::int8`
  return sql`${found} ${liveRows(page, known, true)}`
}

const columnAt = (i: number): Ident => new Ident(`svc_c${i}`)

/** The JSON text of an item. */
const itemOf = (outputs: readonly OutputColumn[]): Sql =>
  sql`${join(
    outputs.map(({ name }, i) => {
      const key = `${i === 0 ? '{' : ','}${JSON.stringify(name)}:`
      return sql`${key}::text operator(pg_catalog.||) coalesce(pg_catalog.to_json(${columnAt(i)})::text, 'null')`
    }),
    sql` operator(pg_catalog.||) `,
  )} operator(pg_catalog.||) '}'`

function groupOf(name: string, target: TableView): OutputColumn {
  const column = columnFor(target.table, name, target.viewer.role)
  if (!column)
    throw badRequest(
      `unknown column "${name}" in group parameter`,
      'unknown_column',
      nearColumn(target.table, name, target.viewer),
    )
  if (!isSortable(column) || column.isVector) {
    throw badRequest(`unsupported group column "${name}" with type "${column.type}"`)
  }
  return { name, value: sql`${ROW}.${column.ident}` }
}

function aggregateOf(fn: string, name: string | undefined, { table, viewer }: TableView): OutputColumn {
  if (fn === 'count' && name === undefined) return { name: 'count', value: sql`pg_catalog.count(*)` }
  const make = Object.hasOwn(FUNCTIONS, fn) ? FUNCTIONS[fn] : undefined
  if (!make) throw unknownFunction(fn)
  const column = columnFor(table, name ?? '', viewer.role)
  if (!column) {
    const near = nearColumn(table, name ?? '', viewer)
    throw badRequest(`unknown column "${name ?? ''}" in aggregate parameter`, 'unknown_column', near)
  }
  if ((fn === 'sum' || fn === 'avg') && !isNumeric(column)) {
    throw badRequest(`aggregate ${fn} requires a numeric column`)
  }
  if (!isSortable(column) || column.isVector) throw unsupported(column)
  return { name: `${fn}_${column.name}`, value: make(sql`${ROW}.${column.ident}`) }
}

const unsupported = ({ name, type }: Column): AppError =>
  badRequest(`unsupported aggregate column "${name}" with type "${type}"`)

const sortKeys = (sort: readonly SortKey[], outputs: readonly OutputColumn[]): Sql[] =>
  sort.map(({ name, descending }) => {
    const i = outputs.findIndex((each) => each.name === name)
    if (i === -1) throw badRequest(`unknown column "${name}" in sort parameter`, 'unknown_column')
    return descending ? sql`${columnAt(i)} desc` : sql`${columnAt(i)}`
  })

/** PostgreSQL has no minimum of some types, such as uuid before 18. */
export const explainAggregate = (error: unknown): unknown =>
  isMissingFunction(error) ? badRequest('unsupported column in aggregate parameter') : error
