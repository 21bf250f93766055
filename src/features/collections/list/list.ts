import { AppError, badRequest } from '../../../core/errors.ts'
import { databaseMessage, sqlStateOf } from '../../../db/pg-errors.ts'
import type { KnownStatements } from '../../../db/rows/known-statements.ts'
import type { Place } from '../../../db/rows/place.ts'
import { Slots, type Sql } from '../../../db/sql.ts'
import { buildList, buildRead } from './build.ts'
import { type ListQuery, parseList, parseRow } from './parse.ts'
import { type ListMeans, planList, planRow } from './plan.ts'

type Query = Readonly<Record<string, string>>

/** The way of a list request: text → what it asks for → what exists → one statement. Only the first is done each time. */
export function listStatement(
  known: KnownStatements,
  query: Query,
  place: Place,
  means: ListMeans,
): { asked: ListQuery; statement: Sql } {
  const slots = new Slots()
  const asked = parseList(query, slots)
  const shape = `list ${JSON.stringify(asked)}`
  const statement = known.get(place, shape, () => buildList(planList(asked, place, means), place.schema))
  return { asked, statement: statement.fill(slots.values) }
}

/** The same for one record; `key` holds one text per primary-key column. */
export function readStatement(known: KnownStatements, query: Query, key: readonly string[], place: Place): Sql {
  const asked = parseRow(query)
  const shape = `read ${JSON.stringify(asked)}`
  return known.get(place, shape, () => buildRead(planRow(asked, place), place.schema)).fill(key)
}

/** What looks at many rows keeps out of the way of what looks at few. */
export const mayBeSlow = ({ search, facets }: ListQuery): boolean => search !== undefined || facets.length > 0

/** Values are read and compared by PostgreSQL; what does not fit is the fault of the parameter that it came in. */
export function explainList(error: unknown, { filter, sort, search, facets }: ListQuery): unknown {
  if (!(error instanceof AppError)) return error
  const state = sqlStateOf(error) ?? ''
  if (search && state === 'XX000' && databaseMessage(error)?.startsWith('tsquery')) {
    return badRequest('invalid search syntax')
  }
  if (state === '42883') {
    if (filter) return badRequest('invalid filter: operator is not supported by the column type')
    if (facets.length > 0) return badRequest('unsupported column in facets parameter')
    return sort.length > 0 ? badRequest('unsupported column in sort parameter') : error
  }
  return filter && (state.startsWith('22') || state === '23514')
    ? badRequest(`invalid filter: ${error.message}`)
    : error
}
