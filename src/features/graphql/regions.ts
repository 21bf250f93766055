import type { Schema } from '../../db/schema/snapshot.ts'
import { SpatialSql } from '../../db/schema/spatial/build.ts'
import { parseSpatial, requireSpatial, SPATIAL_NAMES } from '../../db/schema/spatial/parse.ts'
import type { Viewer } from '../../db/schema/viewer.ts'
import type { Candidates } from '../../db/search/candidates.ts'
import { spatialCandidates } from '../../db/search/spatial-candidates.ts'
import type { Ident, Sql } from '../../db/sql.ts'
import type { NamedTable } from './names.ts'
import type { WhereInput } from './where.ts'

type Regions = {
  readonly conditions: readonly Sql[]
  /** Under policies, a `tid[]` for each condition that an index supports. */
  readonly candidates: readonly Sql[]
}

/** Compiles the spatial arguments, such as `near: {column: "lng,lat,meters"}`. Null counts as absent. */
export function regionsOf(
  args: WhereInput,
  { table, columns }: NamedTable,
  row: Ident,
  { schema, viewer: { role }, candidates }: { schema: Schema; viewer: Viewer; candidates: Candidates },
): Regions {
  const filters = SPATIAL_NAMES.flatMap((name) =>
    Object.entries((args[name] ?? {}) as Readonly<Record<string, string | null>>).flatMap(([columnName, text]) => {
      if (text === null) return []
      const column = requireSpatial(columns.get(columnName), columnName)
      return [{ column, filter: parseSpatial(name, text, column, (value) => value) }]
    }),
  )
  return {
    conditions: filters.flatMap(({ column, filter }) => new SpatialSql(schema, column, row).conditions(filter)),
    candidates: filters.flatMap(
      ({ column, filter }) => spatialCandidates(filter, column, { schema, table, role }, candidates) ?? [],
    ),
  }
}
