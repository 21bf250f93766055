import { badRequest } from '../../../../../core/errors.ts'
import type { TableView } from '../../../../../db/rows/table-view.ts'
import type { Column } from '../../../../../db/schema/snapshot.ts'
import { SpatialSql } from '../../../../../db/schema/spatial/build.ts'
import { requireSpatial } from '../../../../../db/schema/spatial/parse.ts'
import { columnFor } from '../../../../../db/schema/viewer.ts'
import type { Candidates } from '../../../../../db/search/candidates.ts'
import { spatialCandidates } from '../../../../../db/search/spatial-candidates.ts'
import { EMPTY, Ident, ROW, sql } from '../../../../../db/sql.ts'
import type { Stage } from '../stage.ts'
import type { DistanceKey, RegionFilter } from './parse.ts'

const columnOf = ({ table, viewer }: TableView, name: string): Column =>
  requireSpatial(columnFor(table, name, viewer.role), name)

/** Keeps the rows whose column matches a spatial filter. */
export function planRegion(filter: RegionFilter, target: TableView, candidates: Candidates): Stage {
  const { schema, table, viewer } = target
  const column = columnOf(target, filter.column)
  const tids = spatialCandidates(filter, column, { schema, table, role: viewer.role }, candidates)
  return { conditions: new SpatialSql(schema, column, ROW).conditions(filter), ...(tids && { candidates: tids }) }
}

const DISTANCE = '_distance'

/** Sorts by the distance from a point, and adds `_distance` to the items. */
export function planDistance({ column, descending, lng, lat }: DistanceKey, target: TableView): Stage {
  if (target.table.columns.has(DISTANCE)) throw badRequest(`distance conflicts with column "${DISTANCE}"`)
  const distance = new SpatialSql(target.schema, columnOf(target, column), ROW).distance(sql`${lng}`, sql`${lat}`)
  return {
    order: [sql`${distance}${descending ? sql` desc` : EMPTY}`],
    keys: [sql`${distance} as ${new Ident(DISTANCE)}`],
  }
}
