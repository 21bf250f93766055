import { type GraphQLObjectType, getArgumentValues, getNamedType } from 'graphql'
import { badRequest, type ErrorCode } from '../../core/errors.ts'
import type { Appender } from '../../db/changes/append.ts'
import { boundedArray, partsInside, partsOfEach } from '../../db/rows/answer-size.ts'
import type { Cursors } from '../../db/rows/cursors.ts'
import { keysetPage } from '../../db/rows/keyset-page.ts'
import { liveRows } from '../../db/rows/live-query.ts'
import { type Order, orderBy, orderKeys, roundedUp } from '../../db/rows/order.ts'
import type { TableView } from '../../db/rows/table-view.ts'
import type { TimeBudget } from '../../db/rows/time-budget.ts'
import { joined } from '../../db/schema/filter/build.ts'
import { columnJson } from '../../db/schema/row-json.ts'
import type { Column, Schema, Table } from '../../db/schema/snapshot.ts'
import { columnsFor, isAllowed, notAllowed, type Viewer } from '../../db/schema/viewer.ts'
import { type Candidates, candidateBranches, unionOf, withTables } from '../../db/search/candidates.ts'
import { COMMA, EMPTY, Ident, integerLiteral, join, type Slot, type Sql, sql } from '../../db/sql.ts'
import { toAppError } from '../../http/wire/error-response.ts'
import type { CursorMarks } from './cursor-marks.ts'
import type { Operation } from './document/document.ts'
import { asRefusal } from './document/refusal.ts'
import type { Variables } from './document/variables.ts'
import type { NamedTable, Names } from './names.ts'
import { regionsOf } from './regions.ts'
import { meaningOf, type SelectedField, selectionOf } from './selection.ts'
import { buildWhere, type Conditions, type WhereContext, type WhereInput } from './where.ts'
import { type ListWindow, listWindow } from './window.ts'

/** What the compilation of one operation needs. */
export type Compilation = {
  readonly schema: Schema
  readonly names: Names
  readonly viewer: Viewer
  readonly operation: Operation
  readonly variables: Variables
  readonly candidates: Candidates
  readonly cursors: Cursors
  readonly marks: CursorMarks
  readonly conditions: Conditions
  readonly log: Appender
  readonly time: TimeBudget
  /** The tables that it reads. */
  readonly tables: Set<Table>
}

/** Rows of a table under an alias; those of a list have an order. */
export type RowSource = {
  readonly table: NamedTable
  readonly row: Ident
  readonly order?: readonly Order[]
  /** Number of relations from the root. */
  readonly depth: number
  /** The part of the answer that the relations of a row may have together. */
  readonly inside: number
  /** How often each column is selected in one row, with the rows that it refers to. */
  readonly selected: Map<Column, number>
}

/** The rows of a root field, or of a part of it. */
export const rootRows = (table: NamedTable, row: Ident, parts = 1): RowSource => ({
  table,
  row,
  depth: 0,
  inside: partsInside(parts),
  selected: new Map(),
})

/** Compiles a root field of a query, with nested relations, to one statement that returns JSON. */
export const compileRows = (selected: SelectedField, table: NamedTable, c: Compilation): Sql =>
  sql`select ${rowsText(selected, table, c)}, ${c.time.remainder}`

/** As compileRows, for an answer that is kept true; see liveRows. */
export function compileLive(selected: SelectedField, table: NamedTable, c: Compilation, known: Slot): Sql {
  const text = rowsText(selected, table, c)
  return liveRows(sql`select ${text} as j, null::text as k, null::text as p, null::text as o`, known, false)
}

function rowsText(selected: SelectedField, table: NamedTable, c: Compilation): Sql {
  requireAllowed(table, c)
  const rows = listOf(selected, rootRows(table, rowAt(0)), c)
  return sql`coalesce(${boundedArray(rows)}::text, '[]')`
}

export function requireAllowed({ table }: NamedTable, { schema, viewer }: Compilation): void {
  if (!isAllowed(schema, table, viewer)) throw notAllowed(table)
}

const rowAt = (depth: number): Ident => new Ident(`svc_r${depth}`)

const targetOf = ({ table }: NamedTable, { schema, viewer }: Compilation): TableView => ({ schema, table, viewer })

/** A select of the requested keys of one list. */
function listOf(selected: SelectedField, rows: RowSource, c: Compilation, belongs?: Sql): Sql {
  const { table, row } = rows
  c.tables.add(table.table)
  const args = argumentsOf(selected, c)
  const [before, relationsBefore] = [c.conditions.count, c.conditions.relations]
  const where = args['where'] ? buildWhere(args['where'] as WhereInput, table, row, whereContext(c)) : undefined
  const regions = regionsOf(args, table, row, c)
  const conditions = [belongs, where, ...regions.conditions].filter((condition) => condition !== undefined)
  c.conditions.add(1 + ((args['order_by'] ?? []) as unknown[]).length)
  const window = listWindow(args, table, targetOf(table, c), c.cursors)
  const { order, limit, offset, after } = window
  // keysetPage repeats all conditions for up to two ranges per sort key.
  if (after) {
    c.conditions.add(2 * order.length * (c.conditions.count - before))
    c.conditions.addRelations(2 * order.length * (c.conditions.relations - relationsBefore))
  }
  return sql`select ${selectList(selected, { ...rows, order }, c)}
    from ${fromOf(rows, c, conditions, regions.candidates, window)}${orderBy(orderKeys(order, row))}
    limit ${limit}::int8 offset ${offset}::int8`
}

/** A FROM with the rows that match the conditions, or the first of them after a cursor. */
function fromOf(
  { table: { table }, row }: RowSource,
  c: Compilation,
  conditions: readonly Sql[],
  candidates: readonly Sql[],
  { order, limit, after }: ListWindow,
): Sql {
  const under = (all: readonly Sql[]): Sql =>
    sql`${table.ident} as ${row}${all.length > 0 ? sql` where ${join(all, sql` and `)}` : EMPTY}`
  if (candidates.length === 0 && !after) return under(conditions)
  const { tables, branches } = candidateBranches(candidates, row)
  const columns = join(
    columnsFor(table, c.viewer.role).map(({ ident }) => sql`${row}.${ident}`),
    COMMA,
  )
  const select = (more: readonly Sql[]): Sql => sql`select ${columns} from ${under([...more, ...conditions])}`
  if (!after) return sql`(${withTables(tables)}${unionOf(branches, select)}) as ${row}`
  const cut = sql`${orderBy(orderKeys(order, row))} limit ${integerLiteral(roundedUp(limit))}`
  const page = keysetPage(after, order, row, sql`${limit}::int8`, (conditions) =>
    unionOf(branches, (branch) => sql`(${select([...branch, ...conditions])}${cut})`),
  )
  return sql`(${withTables([...tables, ...page.tables])}${page.rows}) as ${row}`
}

/** One column per key of the response. */
export function selectList(selected: SelectedField, rows: RowSource, c: Compilation): Sql {
  const type = getNamedType(selected.field?.type) as GraphQLObjectType
  const fields = selectionOf(selected.inner, type, c.operation, c.variables)
  const relations = fields.filter(({ field }) => field && meaningOf(field).kind === 'relation').length
  c.conditions.addRelations(relations)
  const inner = { ...rows, inside: partsOfEach(rows.inside, relations) }
  return join(
    fields.map((field) => sql`${fieldValue(field, type, inner, c)} as ${new Ident(field.key)}`),
    COMMA,
  )
}

function fieldValue(selected: SelectedField, type: GraphQLObjectType, rows: RowSource, c: Compilation): Sql {
  if (!selected.field) return sql`${type.name}::text`
  const meaning = meaningOf(selected.field)
  switch (meaning.kind) {
    case 'column':
      countSelected(meaning.column, rows)
      return columnJson(c.schema, meaning.column, rows.row)
    case 'relation':
      return relationOf(selected, meaning.name, meaning.of, rows, c)
    case 'cursor':
      return cursorOf(rows, c)
    default:
      throw new TypeError(`a row has no ${meaning.kind}`)
  }
}

const MAX_REPEATED = 50

/** A row may hold the same long text under many names. */
function countSelected(column: Column, { selected }: RowSource): void {
  const count = (selected.get(column) ?? 0) + 1
  if (count > MAX_REPEATED) {
    const what = `column "${column.name}" is selected more than ${MAX_REPEATED} times in a row`
    throw badRequest(what, 'query_too_complex')
  }
  selected.set(column, count)
}

/** Null outside of lists, and in mutations: sealing could fail after the commit. What is kept true has no pages. */
function cursorOf({ table, row, order }: RowSource, c: Compilation): Sql {
  if (!order || c.operation.node.operation !== 'query') return sql`null::text`
  return c.marks.mark(targetOf(table, c), order, row)
}

function relationOf(selected: SelectedField, name: string, to: NamedTable, from: RowSource, c: Compilation): Sql {
  const step = from.table.relations.get(name)
  if (!step) throw new TypeError(`no relation ${name}`)
  const isOne = step.relation.type === 'many-to-one'
  c.tables.add(step.target)
  if (!isAllowed(c.schema, step.target, c.viewer)) return isOne ? sql`null` : sql`'[]'::pg_catalog.json`
  const depth = from.depth + 1
  const { inside, selected: counts } = from
  const there: RowSource = { table: to, row: rowAt(depth), depth, inside, selected: counts }
  const belongs = joined(step, from.table.table, from.row, there.row)
  if (isOne) {
    return sql`(select pg_catalog.to_json(j.*) from (
      select ${selectList(selected, there, c)} from ${to.table.ident} as ${there.row} where ${belongs} limit 1) as j)`
  }
  const rows = listOf(selected, { ...there, inside: partsInside(inside), selected: new Map() }, c, belongs)
  return sql`coalesce(${boundedArray(rows, inside)}, '[]'::pg_catalog.json)`
}

export const argumentsOf = ({ field, node }: SelectedField, c: Compilation): WhereInput =>
  field ? getArgumentValues(field, node, c.variables) : {}

export const whereContext = (c: Compilation): WhereContext => ({
  conditions: c.conditions,
  relationsBefore: c.conditions.relations,
  follow: (from, relation) => {
    const target = from.relations.get(relation)?.target
    const to = target && c.names.of(target)
    if (!to) throw badRequest(`unknown relation: ${relation}`, 'unknown_relation')
    requireAllowed(to, c)
    c.tables.add(to.table)
    return to
  },
})

/** An entry of `errors` (GraphQL specification, section 7.1.2), with the HTTP status of the same REST error. */
export type Failure = { message: string; path?: (string | number)[]; extensions: { code: number; error: ErrorCode } }

/** Messages quote the request, which may be a megabyte long. */
const MAX_MESSAGE = 500

/** Unexpected errors are `internal error`. */
export function failureOf(error: unknown, path?: string): Failure {
  const { message, status: code, errorCode } = toAppError(asRefusal(error))
  const shown = message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message
  return { message: shown, ...(path !== undefined && { path: [path] }), extensions: { code, error: errorCode } }
}
