import type { AppError } from '../../../core/errors.ts'
import { isBadGeometry } from '../../../db/pg-errors.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import { invalidGeoJson } from '../../../db/schema/spatial/geojson.ts'
import { isSpatial } from '../../../db/schema/spatial-conversion.ts'

export const explainWrite = (error: AppError, columns: readonly Column[]): AppError =>
  columns.some(isSpatial) && isBadGeometry(error) ? invalidGeoJson() : error
