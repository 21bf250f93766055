import { type GraphQLObjectType, getArgumentValues, getNamedType } from 'graphql'
import { AppError, badRequest } from '../../core/errors.ts'
import { type Candidates, unionOf, waysTo, withTables } from '../../db/schema/candidates.ts'
import { joined } from '../../db/schema/filter/build.ts'
import { columnJson } from '../../db/schema/row-json.ts'
import type { Schema } from '../../db/schema/snapshot.ts'
import { columnsFor, isAllowed, notAllowed, type Viewer } from '../../db/schema/viewer.ts'
import { COMMA, EMPTY, Ident, join, type Sql, sql } from '../../db/sql.ts'
import type { Operation } from './document.ts'
import type { NamedTable, Names } from './names.ts'
import { placesOf } from './places.ts'
import { meaningOf, type Selected, selectionOf, type Variables } from './selection.ts'
import { type Input, type Reach, whereOf } from './where.ts'

/** Everything that one operation is compiled against. */
export type Compilation = {
  readonly schema: Schema
  readonly names: Names
  readonly viewer: Viewer
  readonly operation: Operation
  readonly variables: Variables
  readonly candidates: Candidates
}

const MAX_ROWS = 1000

/** A root field of a query as one statement that answers its JSON, nested relations included. */
export function compileRows(selected: Selected, table: NamedTable, c: Compilation): Sql {
  requireAllowed(table, c)
  const row = new Ident('svc_r0')
  const rows = rowsOf(selected, table, row, c, undefined, 0)
  return sql`select coalesce(pg_catalog.json_agg(j.*)::text, '[]') from (${rows}) as j`
}

export function requireAllowed({ table }: NamedTable, { schema, viewer }: Compilation): void {
  if (!isAllowed(schema, table, viewer)) throw notAllowed(table)
}

/** The rows of one list, as a select of the keys that were asked for. */
function rowsOf(
  selected: Selected,
  table: NamedTable,
  row: Ident,
  c: Compilation,
  belongs: Sql | undefined,
  depth: number,
): Sql {
  const args = argumentsOf(selected, c)
  const asked = args['where'] ? whereOf(args['where'] as Input, table, row, reachOf(c)) : undefined
  const places = placesOf(args, table, row, c)
  const conditions = [belongs, asked, ...places.conditions].filter((condition) => condition !== undefined)
  const order = orderOf(args['order_by'], table, row)
  return sql`select ${selectList(selected, table, row, c, depth)} from ${fromOf(table, row, c, conditions, places.candidates)}${order}
    limit ${countOf(args['limit'], 'limit', MAX_ROWS)}::int8 offset ${countOf(args['offset'], 'offset', Number.MAX_SAFE_INTEGER)}::int8`
}

/** The rows that fulfil the conditions, as a FROM. */
function fromOf(
  { table }: NamedTable,
  row: Ident,
  c: Compilation,
  conditions: readonly Sql[],
  candidates: readonly Sql[],
): Sql {
  const rows = (way: readonly Sql[]): Sql => {
    const all = [...way, ...conditions]
    return sql`${table.ident} as ${row}${all.length > 0 ? sql` where ${join(all, sql` and `)}` : EMPTY}`
  }
  if (candidates.length === 0) return rows([])
  const { sets, ways } = waysTo(candidates, row)
  const columns = columnsFor(table, c.viewer.role).map(({ ident }) => sql`${row}.${ident}`)
  return sql`(${withTables(sets)}${unionOf(ways, (way) => sql`select ${join(columns, COMMA)} from ${rows(way)}`)}) as ${row}`
}

/** One column per key of the answer. */
export function selectList(selected: Selected, table: NamedTable, row: Ident, c: Compilation, depth: number): Sql {
  const type = getNamedType(selected.field?.type) as GraphQLObjectType
  const fields = selectionOf(selected.inner, type, c.operation, c.variables)
  return join(
    fields.map((field) => sql`${fieldValue(field, type, table, row, c, depth)} as ${new Ident(field.key)}`),
    COMMA,
  )
}

function fieldValue(
  selected: Selected,
  type: GraphQLObjectType,
  table: NamedTable,
  row: Ident,
  c: Compilation,
  depth: number,
): Sql {
  if (!selected.field) return sql`${type.name}::text`
  const meaning = meaningOf(selected.field)
  if (meaning.kind === 'column') return columnJson(c.schema, meaning.column, row)
  if (meaning.kind !== 'relation') throw new TypeError(`a row has no ${meaning.kind}`)
  return relationOf(selected, meaning.name, meaning.of, table, row, c, depth + 1)
}

function relationOf(
  selected: Selected,
  name: string,
  to: NamedTable,
  from: NamedTable,
  row: Ident,
  c: Compilation,
  depth: number,
): Sql {
  const step = from.relations.get(name)
  if (!step) throw new TypeError(`no relation ${name}`)
  const isOne = step.relation.type === 'many-to-one'
  if (!isAllowed(c.schema, step.target, c.viewer)) return isOne ? sql`null` : sql`'[]'::pg_catalog.json`
  const there = new Ident(`svc_r${depth}`)
  const belongs = joined(step, from.table, row, there)
  if (isOne) {
    const list = selectList(selected, to, there, c, depth)
    return sql`(select pg_catalog.to_json(j.*) from (
      select ${list} from ${to.table.ident} as ${there} where ${belongs} limit 1) as j)`
  }
  const rows = rowsOf(selected, to, there, c, belongs, depth)
  return sql`coalesce((select pg_catalog.json_agg(j.*) from (${rows}) as j), '[]'::pg_catalog.json)`
}

export const argumentsOf = ({ field, node }: Selected, c: Compilation): Input =>
  field ? getArgumentValues(field, node, c.variables) : {}

export const reachOf =
  (c: Compilation): Reach =>
  (from, relation) => {
    const target = from.relations.get(relation)?.target
    const to = target && c.names.of(target)
    if (!target || !to) throw badRequest(`unknown relation: ${relation}`)
    return { to, isAllowed: isAllowed(c.schema, target, c.viewer) }
  }

/** Null counts as absent, too much as the most. */
function countOf(value: unknown, name: 'limit' | 'offset', most: number): number {
  if (value === undefined || value === null) return name === 'limit' ? most : 0
  if ((value as number) < 0) throw badRequest(`${name} must not be negative`)
  return Math.min(value as number, most)
}

/** In the order asked for; without one, and between equals, by primary key. */
function orderOf(asked: unknown, table: NamedTable, row: Ident): Sql {
  const keys = ((asked ?? []) as Input[]).map((entry) => {
    const [[name, direction] = [], ...more] = Object.entries(entry).filter(([, value]) => value !== undefined)
    const column = name === undefined ? undefined : table.columns.get(name)
    if (!column || more.length > 0 || direction === null) {
      throw badRequest('an order_by object has exactly one column; use a list for several')
    }
    return { column, isDescending: direction === 'DESC' }
  })
  const isVisible = table.table.primaryKey.every(({ name }) => table.columns.has(name))
  const rest = (isVisible ? table.table.primaryKey : []).filter((key) => !keys.some(({ column }) => column === key))
  const all = [...keys, ...rest.map((column) => ({ column, isDescending: false }))]
  if (all.length === 0) return EMPTY
  return sql` order by ${join(
    all.map(({ column, isDescending }) => sql`${row}.${column.ident}${isDescending ? sql` desc` : EMPTY}`),
    COMMA,
  )}`
}

/** As the interface of GraphQL tells a failure: its sentence, where, and the HTTP status it would have been. */
export type Failure = { message: string; path?: (string | number)[]; extensions: { code: number } }

/** Sentences quote what was sent, which may be a megabyte. */
const MAX_MESSAGE = 500

export function failureOf(error: unknown, path?: string): Failure {
  const known = error instanceof AppError ? error : undefined
  const message =
    known?.message ?? (error instanceof Error && error.name === 'GraphQLError' ? error.message : 'internal error')
  const code = known?.status ?? (message === 'internal error' ? 500 : 400)
  const said = message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message
  return { message: said, ...(path !== undefined && { path: [path] }), extensions: { code } }
}
