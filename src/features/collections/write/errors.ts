import type { AppError } from '../../../core/errors.ts'
import { sqlStateOf } from '../../../db/pg-errors.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import { isSpatial } from '../../../db/schema/spatial/convert.ts'
import { invalidGeoJson } from '../../../db/schema/spatial/geojson.ts'

/** PostGIS has no SQLSTATE of its own for a geometry it cannot read (XX000) or that does not fit the column (22023). */
export function explainWrite(error: AppError, columns: readonly Column[]): AppError {
  const state = sqlStateOf(error)
  return columns.some(isSpatial) && (state === 'XX000' || state === '22023') ? invalidGeoJson() : error
}
