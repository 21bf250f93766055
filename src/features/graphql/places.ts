import type { Schema } from '../../db/schema/snapshot.ts'
import { SpatialSql } from '../../db/schema/spatial/build.ts'
import { parseSpatial, requireSpatial, SPATIAL_NAMES } from '../../db/schema/spatial/parse.ts'
import type { Ident, Sql } from '../../db/sql.ts'
import type { NamedTable } from './names.ts'
import type { Input } from './where.ts'

/** The conditions of `near: {column: "lng,lat,meters"}` and the others; null counts as absent. */
export const placesOf = (args: Input, { columns }: NamedTable, row: Ident, schema: Schema): Sql[] =>
  SPATIAL_NAMES.flatMap((name) =>
    Object.entries((args[name] ?? {}) as Readonly<Record<string, string | null>>).flatMap(([column, text]) => {
      if (text === null) return []
      const found = requireSpatial(columns.get(column), column)
      return new SpatialSql(schema, found, row).conditions(parseSpatial(name, text, found, (value) => value))
    }),
  )
