import { badRequest } from '../../core/errors.ts'
import { joined } from '../../db/schema/filter/build.ts'
import { isNull, operator } from '../../db/schema/filter/operators.ts'
import type { Column, Comparison } from '../../db/schema/snapshot.ts'
import { AND, EMPTY, Ident, join, OR, type Sql, sql, type Value } from '../../db/sql.ts'
import { Json } from './document/scalars.ts'
import { inputJson } from './input-json.ts'
import type { NamedTable } from './names.ts'

export type WhereInput = Readonly<Record<string, unknown>>

export type WhereContext = {
  /** Follows a relation; throws where the caller may not read its table. */
  readonly follow: (from: NamedTable, relation: string) => NamedTable
  readonly conditions: Conditions
  /** The relations of the operation before this `where`. */
  readonly relationsBefore: number
}

const MAX_CONDITIONS = 2_000
/** Of one operation. */
const MAX_RELATIONS = 300
/** Of one `where`: PostgreSQL plans them together, in a time that grows with the third power of their number. */
const MAX_IN_WHERE = 50

/** Counts the conditions, sort keys and relations of one operation, because PostgreSQL plans each of them. */
export class Conditions {
  #count = 0
  #relations = 0

  get count(): number {
    return this.#count
  }

  get relations(): number {
    return this.#relations
  }

  addRelations(more: number): void {
    this.#relations += more
    if (this.#relations > MAX_RELATIONS)
      throw badRequest(`query has more than ${MAX_RELATIONS} relations`, 'query_too_complex')
  }

  /** `before`: the relations when the `where` began. */
  addRelationInWhere(before: number): void {
    this.addRelations(1)
    if (this.#relations - before > MAX_IN_WHERE)
      throw badRequest(`where has more than ${MAX_IN_WHERE} relations`, 'query_too_complex')
  }

  add(more: number): void {
    this.#count += more
    if (this.#count > MAX_CONDITIONS)
      throw badRequest(`query has more than ${MAX_CONDITIONS} conditions and sort keys`, 'query_too_complex')
  }
}

const COMPARISONS: Readonly<Record<string, Comparison>> = {
  _eq: '=',
  _neq: '!=',
  _gt: '>',
  _gte: '>=',
  _lt: '<',
  _lte: '<=',
}

/** ` where …`, or nothing. */
export function whereClause(input: unknown, table: NamedTable, row: Ident, context: WhereContext): Sql {
  const condition =
    input === undefined || input === null ? undefined : buildWhere(input as WhereInput, table, row, context)
  return condition ? sql` where ${condition}` : EMPTY
}

/** A boolean expression over the row; undefined if there are no conditions. */
export function buildWhere(
  input: WhereInput,
  table: NamedTable,
  row: Ident,
  context: WhereContext,
  depth = 1,
): Sql | undefined {
  const all = Object.entries(input).flatMap(([key, value]): Sql[] => {
    if (value === undefined) return []
    if (value === null) throw badRequest(`where.${key} must not be null`, 'invalid_filter')
    const condition = conditionOn(key, value, table, row, context, depth)
    return condition ? [condition] : []
  })
  return all.length === 0 ? undefined : sql`(${join(all, AND)})`
}

function conditionOn(
  key: string,
  value: unknown,
  table: NamedTable,
  row: Ident,
  context: WhereContext,
  depth: number,
): Sql | undefined {
  context.conditions.add(Array.isArray(value) ? value.length : 1)
  const inner = (part: unknown): Sql => buildWhere(part as WhereInput, table, row, context, depth) ?? sql`true`
  if (key === '_and') return sql`(${join([sql`true`, ...(value as unknown[]).map(inner)], AND)})`
  if (key === '_or') return sql`(${join([sql`false`, ...(value as unknown[]).map(inner)], OR)})`
  if (key === '_not') return sql`not ${inner(value)}`
  const column = table.columns.get(key)
  if (column) return compared(column, value as WhereInput, row, context)
  return related(key, value as WhereInput, table, row, context, depth)
}

function related(
  key: string,
  value: WhereInput,
  table: NamedTable,
  row: Ident,
  context: WhereContext,
  depth: number,
): Sql {
  const step = table.relations.get(key)
  if (!step) throw badRequest(`unknown relation: ${key}`, 'unknown_relation')
  context.conditions.addRelationInWhere(context.relationsBefore)
  const to = context.follow(table, key)
  const there = new Ident(`svc_w${depth}`)
  const inner = buildWhere(value, to, there, context, depth + 1)
  return sql`exists (select from ${step.target.ident} as ${there}
    where ${joined(step, table.table, row, there)}${inner ? sql` and ${inner}` : EMPTY})`
}

function compared(column: Column, operators: WhereInput, row: Ident, { conditions }: WhereContext): Sql {
  const entries = Object.entries(operators).filter(([, value]) => value !== undefined)
  if (entries.length === 0) throw badRequest(`where.${column.name} needs an operator`, 'invalid_filter')
  return join(
    entries.map(([name, value]) => {
      if (value === null) throw badRequest(`where.${column.name}.${name} must not be null`, 'invalid_filter')
      conditions.add(isComparedAlone(column) && Array.isArray(value) ? value.length : 1)
      return comparison(column, name, value, sql`${row}.${column.ident}`)
    }),
    AND,
  )
}

function comparison(column: Column, name: string, value: unknown, left: Sql): Sql {
  const simple = COMPARISONS[name]
  if (simple) return sql`${left} ${operator(simple, column)} ${bound(column, value)}`
  switch (name) {
    case '_in':
    case '_nin': {
      const found = isOneOf(column, left, value as unknown[])
      return name === '_in' ? found : sql`not ${found}`
    }
    case '_like':
      return sql`${left}::text operator(pg_catalog.~~) ${String(value)}::text`
    case '_ilike':
      return sql`${left}::text operator(pg_catalog.~~*) ${String(value)}::text`
    default:
      return isNull(column, left, value !== true)
  }
}

/** Of rows and lists of them: JSON, which PostgreSQL takes apart. */
const holdsRows = ({ element, typeKind }: Column): boolean => (element?.typeKind ?? typeKind) === 'c'

const isComparedAlone = (column: Column): boolean => column.isArray || holdsRows(column)

/** All values are one array parameter, unless they are arrays, because PostgreSQL has no arrays of arrays, or JSON. */
function isOneOf(column: Column, left: Sql, values: readonly unknown[]): Sql {
  const equal = sql`${left} ${operator('=', column)}`
  if (!isComparedAlone(column)) return sql`(${equal} any (${texts(values)}::${column.castType}[]))`
  return sql`(${join([sql`false`, ...values.map((item) => sql`${equal} ${bound(column, item)}`)], OR)})`
}

const texts = (values: readonly unknown[]): (string | null)[] =>
  values.map((item) => (item === null ? null : String(parameter(item))))

// The cast is on the parameter, so that an index on the column can be used.
const bound = (column: Column, value: unknown): Sql =>
  holdsRows(column)
    ? sql`(select svc_v.v from pg_catalog.json_to_record(${`{"v":${inputJson(value)}}`}::pg_catalog.json) as svc_v(v ${column.castType}))`
    : sql`${parameter(value)}::${column.castType}`

/** A coerced input as a parameter. */
export function parameter(value: unknown): Value {
  if (value instanceof Json) return value.text
  if (Array.isArray(value)) return texts(value)
  return value as Value
}
