import { badRequest } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import { isComparable, type LivePlan, type LiveQuery, type OwnTable } from '../../db/rows/live-query.ts'
import { SqlCache } from '../../db/rows/sql-cache.ts'
import type { TableView } from '../../db/rows/table-view.ts'
import { operator } from '../../db/schema/filter/operators.ts'
import type { PlannedFilter } from '../../db/schema/filter/plan.ts'
import { findOrRefresh, findTable, mayDo } from '../../db/schema/lookup.ts'
import { rowAlias, rowImage } from '../../db/schema/row-image.ts'
import type { SchemaCache, Table } from '../../db/schema/snapshot.ts'
import { isAllowed, keyFor, viewerOf } from '../../db/schema/viewer.ts'
import { ROW, Slot, Slots, type Sql, sql, type Value } from '../../db/sql.ts'
import { listQuery } from './answers.ts'
import { buildLiveAggregate, explainAggregate, parseAggregate } from './list/aggregate.ts'
import { buildLiveList, listConditions } from './list/build.ts'
import { explainList } from './list/list.ts'
import { names, parseList } from './list/parse.ts'
import { type ListPlan, planList } from './list/plan.ts'
import { expandedTables, filterTables } from './list/related.ts'
import type { ListDeps } from './list/stages/stage.ts'
import { collectionNotFound, onTable } from './target/find-table.ts'

type Query = Readonly<Record<string, string>>

/** The parameters that decide a live list, and those that mean nothing to it. */
const CONDITIONS = ['filter', 'near', 'within', 'intersects', 'bbox']
const SHAPE = ['sort', 'perPage', 'fields', 'expand', 'aggregate', 'group', 'depends']
const IGNORED = ['total', 'skipTotal']
/** In any form. */
const PAGES = ['page', 'cursor']
const REFUSED = Object.keys(listQuery).filter((name) => ![...CONDITIONS, ...SHAPE, ...IGNORED, ...PAGES].includes(name))
const MAX_DEPENDS = 20

const notWith = (name: string) => badRequest(`live does not go with "${name}"`)

/** Lists that are kept true. Throws what their parameters are refused with. */
export function createLiveLists({ schema, listDeps }: { schema: SchemaCache; listDeps: ListDeps }) {
  const sqlCache = new SqlCache()
  return (name: string, query: Query): LiveQuery => {
    const isGiven = (one: string): boolean => !['', 'false'].includes(query[one] ?? '')
    const refused = PAGES.find((one) => query[one] !== undefined) ?? REFUSED.find(isGiven)
    if (refused !== undefined) throw notWith(refused)
    if (query['sort']?.includes('.distance(')) throw notWith('sort')
    const named = [...CONDITIONS, ...SHAPE].filter((one) => (query[one] ?? '') !== '')
    const given: Query = Object.fromEntries(named.map((one) => [one, query[one] ?? '']))
    const depends = [...new Set(names(given['depends']))]
    if (depends.length > MAX_DEPENDS) throw badRequest('too many tables in depends parameter')
    return {
      key: JSON.stringify([name, given]),
      plan: async (who) => {
        const others: Table[] = []
        for (const one of depends) others.push(await readable(schema, one, who))
        return onTable(schema, name, who, async (target) =>
          planLive(target, name, given, others, { listDeps, sqlCache }),
        )
      },
    }
  }
}

type Deps = { readonly listDeps: ListDeps; readonly sqlCache: SqlCache }

async function readable(cache: SchemaCache, name: string, who: Identity): Promise<Table> {
  const viewer = viewerOf(who)
  const found = await findOrRefresh(cache, (schema) => {
    const table = findTable(schema, name)
    return table && mayDo(table, viewer.role, 'select') && isAllowed(schema, table, viewer) ? table : undefined
  })
  if (!found) throw collectionNotFound(cache.read(), name, viewer)
  return found
}

function planLive(target: TableView, name: string, query: Query, depends: readonly Table[], deps: Deps): LivePlan {
  const { schema, table, viewer } = target
  const isView = table.kind === 'view' || table.kind === 'materialized_view'
  if (isView && depends.length === 0) throw badRequest('live on a view needs "depends"', 'validation_failed')
  const slots = new Slots()
  const groups = query['aggregate'] === undefined ? undefined : parseAggregate(query, slots, target)
  const parsed = groups ?? parseList(query, slots, target)
  const plan = planList(parsed, target, deps.listDeps)
  const key = isView ? [] : keyFor(table, viewer.role)
  const [known, keys] = [slots.put([]), slots.put('')]
  const filled = (statement: Sql, slot: Slot, value: Value): Sql =>
    statement.fill(slots.values.map((given, i) => (i === slot.index ? value : given)))
  // Lists that differ in values alone share their statements.
  const shared = (what: string, make: () => Sql): Sql =>
    deps.sqlCache.get(target, `${what} ${JSON.stringify(parsed)}`, make)
  const list = shared('live', () =>
    groups ? buildLiveAggregate(groups, plan, target, known) : buildLiveList(plan, schema, key, known),
  )
  const elsewhere = [...filterTables(plan.filter), ...expandedTables(plan.shape.expand), ...depends]
  const isAlone = key.length > 0 && !elsewhere.includes(table)
  const question = isAlone ? shared('concerns', () => concerns(plan, target, keys)) : undefined
  const own: OwnTable | undefined = question && {
    schema,
    table,
    isAggregate: groups !== undefined,
    question: JSON.stringify([name, ...CONDITIONS.map((one) => query[one])]),
    concerns: (rows) => filled(question, keys, rows),
    isUnfiltered: CONDITIONS.every((one) => query[one] === undefined),
    equal: equalities(plan.filter, slots),
  }
  return {
    tables: [...new Set([table, ...elsewhere])].map(({ oid }) => oid),
    own,
    isKeyed: groups !== undefined || key.length > 0,
    read: (digests) => filled(list, known, digests),
    explain: (error) => (groups ? explainAggregate(explainList(error, parsed)) : explainList(error, parsed)),
  }
}

/** Under the policies of the table itself, on the rows that are there. */
function concerns(plan: ListPlan, { schema, table }: TableView, keys: Slot): Sql {
  const [column, ...others] = table.primaryKey
  if (column && others.length === 0) {
    // Rows are found by an array of keys in half the time that a join with images takes.
    const wanted = sql`array(select (svc_e.svc_key operator(pg_catalog.->>) ${column.name}::text)::${column.castType}
      from pg_catalog.jsonb_array_elements(${keys}::pg_catalog.jsonb) as svc_e(svc_key))`
    const isOne = sql`${ROW}.${column.ident} ${operator('=', column)} any(${wanted})`
    return sql`select exists (select from ${table.ident} as ${ROW}${listConditions(plan, isOne)})::text`
  }
  const same = table.primaryKey.map(
    (column) => sql`${ROW}.${column.ident} ${operator('=', column)} ${rowAlias(table)}.${column.ident}`,
  )
  return sql`select exists (select from pg_catalog.jsonb_array_elements(${keys}::pg_catalog.jsonb) as svc_e(svc_key),
    ${rowImage({ schema, table }, sql`svc_e.svc_key`)}, ${table.ident} as ${ROW}${listConditions(plan, ...same)})::text`
}

/** Columns that the filter compares with one value, in each of its alternatives. */
function equalities(filter: PlannedFilter | undefined, { values }: Slots): Map<string, string> {
  const found = new Map<string, string>()
  const parts = filter?.kind === 'and' ? filter.parts : filter ? [filter] : []
  for (const part of parts) {
    if (part.kind !== 'compare' || part.op !== '=' || part.steps.length > 0 || part.fractional) continue
    const text = String(part.value instanceof Slot ? values[part.value.index] : part.value)
    if (isComparable(part.column, text)) found.set(part.column.name, text)
  }
  return found
}
