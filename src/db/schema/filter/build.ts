import { AND, Ident, join, OR, type Sql, sql } from '../../sql.ts'
import { rowsIn } from '../row-image.ts'
import type { Column, Table } from '../snapshot.ts'
import type { RelationStep } from '../viewer.ts'
import { isNull, operator } from './operators.ts'
import type { PlannedFilter } from './plan.ts'

/** A boolean expression over the row `alias` of `table`. */
export function buildFilter(filter: PlannedFilter, table: Table, alias: Ident): Sql {
  switch (filter.kind) {
    case 'and':
    case 'or': {
      const parts = filter.parts.map((part) => buildFilter(part, table, alias))
      return sql`(${join(parts, filter.kind === 'and' ? AND : OR)})`
    }
    case 'null':
      return along(filter.steps, table, alias, (row) => {
        return isNull(filter.column, sql`${row}.${filter.column.ident}`, filter.negated)
      })
    case 'compare':
      return along(filter.steps, table, alias, (row) => compare(filter, row))
    case 'in':
      return along(filter.steps, table, alias, (row) => isOneOf(filter, row))
  }
}

/** The condition on the row at the end of the path, as nested EXISTS. */
function along(
  steps: readonly RelationStep[],
  table: Table,
  alias: Ident,
  condition: (row: Ident) => Sql,
  depth = 1,
): Sql {
  const [step, ...rest] = steps
  if (!step) return condition(alias)
  const row = new Ident(`svc_f${depth}`)
  const inner = along(rest, step.target, row, condition, depth + 1)
  return sql`exists (select from ${rowsIn(step.target)} as ${row} where ${joined(step, table, alias, row)} and ${inner})`
}

/** The join condition of a relation: all of its key columns are equal. */
export function joined({ relation, target }: RelationStep, from: Table, fromAlias: Ident, toAlias: Ident): Sql {
  const pairs = relation.fromColumns.map((name, i) => {
    const here = from.columns.get(name)
    const there = target.columns.get(relation.toColumns[i] ?? '')
    if (!here || !there) throw new TypeError(`relation ${relation.constraint} names a column that is not there`)
    return sql`${toAlias}.${there.ident} ${operator('=', here, there)} ${fromAlias}.${here.ident}`
  })
  return join(pairs, AND)
}

// The cast is on the parameter, so that an index on the column can be used.
function compare({ column, op, value, fractional }: Extract<PlannedFilter, { kind: 'compare' }>, row: Ident): Sql {
  const left = sql`${row}.${column.ident}`
  if (op === '~') return sql`${left}::text operator(pg_catalog.~~) ${value}::text`
  if (op === '!~') return sql`${left}::text operator(pg_catalog.!~~) ${value}::text`
  if (fractional && isInteger(column)) return sql`${left}::numeric ${operator(op, column)} ${value}::numeric`
  return sql`${left} ${operator(op, column)} ${value}::${column.castType}`
}

const INTEGERS = new Set(['int2', 'int4', 'int8'])

/** Integers are compared as numeric with a number such as 2.5. */
const isInteger = (column: Column): boolean => INTEGERS.has(column.baseType) && !column.isArray

function isOneOf({ column, values, fractional }: Extract<PlannedFilter, { kind: 'in' }>, row: Ident): Sql {
  if (fractional && isInteger(column))
    return sql`${row}.${column.ident}::numeric ${operator('=', column)} any (${values}::numeric[])`
  const left = sql`${row}.${column.ident} ${operator('=', column)} any`
  // PostgreSQL has no arrays of arrays.
  if (column.isArray) return sql`${left} (select v::${column.castType} from pg_catalog.unnest(${values}::text[]) as v)`
  return sql`${left} (${values}::${column.castType}[])`
}
