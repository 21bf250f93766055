import { badRequest } from '../../../../core/errors.ts'
import type { Place } from '../../../../db/rows/place.ts'
import { type Candidates, hidesRows, isFlat } from '../../../../db/schema/candidates.ts'
import type { Column, Table } from '../../../../db/schema/snapshot.ts'
import { SpatialSql } from '../../../../db/schema/spatial/build.ts'
import { type Given, requireSpatial, type SpatialFilter } from '../../../../db/schema/spatial/parse.ts'
import { columnFor } from '../../../../db/schema/viewer.ts'
import { EMPTY, Ident, integer, type Sql, sql } from '../../../../db/sql.ts'
import type { Stage } from '../stage.ts'
import type { DistanceKey, PlacedFilter } from './parse.ts'

const ROW = new Ident('svc_t')

const columnOf = ({ table, viewer }: Place, name: string): Column =>
  requireSpatial(columnFor(table, name, viewer.role), name)

/** Rows of which a column lies somewhere. */
export function planPlace(filter: PlacedFilter, place: Place, candidates: Candidates): Stage {
  const column = columnOf(place, filter.column)
  const conditions = new SpatialSql(place.schema, column, ROW).conditions(filter)
  const { table, viewer } = place
  const isHelped = isFlat(table) && hidesRows(table, viewer.role) && isIndexed(table, column)
  const tids = isHelped ? candidateRows(filter, column, place, candidates) : undefined
  return { conditions, ...(tids && { candidates: tids }) }
}

const isIndexed = (table: Table, { name }: Column): boolean =>
  table.indexes.some(({ method, columns }) => method === 'gist' && columns[0] === name)

function candidateRows(
  filter: SpatialFilter,
  column: Column,
  { schema, table }: Place,
  candidates: Candidates,
): Sql | undefined {
  const given: Sql[] = []
  const placeOf = (value: Given): Sql => {
    given.push(sql`${value}`)
    return sql`$1[${integer(given.length)}]`
  }
  const asked: SpatialFilter = {
    ...filter,
    values: filter.name === 'near' ? filter.values.map(placeOf) : [],
    boxes: [],
    candidates: filter.candidates.map((box) => box.map(placeOf)),
  }
  const condition = new SpatialSql(schema, column, ROW).candidates(asked)
  return condition && candidates.of(table, condition, given)
}

const DISTANCE = '_distance'

/** In the order of the distance from a point. */
export function planDistance({ column, descending, lng, lat }: DistanceKey, place: Place): Stage {
  if (place.table.columns.has(DISTANCE)) throw badRequest(`distance conflicts with column "${DISTANCE}"`)
  const distance = new SpatialSql(place.schema, columnOf(place, column), ROW).distance(sql`${lng}`, sql`${lat}`)
  return {
    order: [sql`${distance}${descending ? sql` desc` : EMPTY}`],
    keys: [sql`${distance} as ${new Ident(DISTANCE)}`],
  }
}
