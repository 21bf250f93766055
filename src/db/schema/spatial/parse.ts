import { badRequest } from '../../../core/errors.ts'
import type { Slot, Sql, Value } from '../../sql.ts'
import type { Column, Schema } from '../snapshot.ts'
import { isInDegrees, isSpatial } from '../spatial-conversion.ts'
import { type Box, boundsOf, boxesAround, boxesBetween, isOnEarth, widened } from './box.ts'
import { isGeoJson } from './geojson.ts'

export const SPATIAL_NAMES = ['near', 'within', 'intersects', 'bbox'] as const
export type SpatialName = (typeof SPATIAL_NAMES)[number]

/** A value of a statement, its slot, or an expression. */
export type SpatialArg = Slot | Value | Sql
export type BoxArgs = readonly SpatialArg[]

export type SpatialFilter = {
  readonly name: SpatialName
  /** `near`: longitude, latitude, metres; `within` and `intersects`: the GeoJSON; `bbox`: nothing. */
  readonly values: readonly SpatialArg[]
  /** `bbox`: the requested boxes. */
  readonly boxes: readonly BoxArgs[]
  /** Boxes that contain everything that may match, for an index; none = no index helps. */
  readonly candidates: readonly BoxArgs[]
}

export function requirePostGis({ postGIS }: Schema): void {
  if (!postGIS) throw badRequest('spatial filters require PostGIS extension', 'extension_missing')
}

export function requireSpatial(column: Column | undefined, name: string): Column {
  if (!column || !isSpatial(column)) throw badRequest(`column "${name}" is not a geometry column`, 'invalid_geometry')
  return column
}

const invalid = (name: string, reason: string) => badRequest(`invalid ${name} parameter: ${reason}`)

/** More than half the circumference of the earth. */
const MAX_METERS = 20_100_000
const OFF_EARTH = 'longitude must be -180 to 180 and latitude -90 to 90'

/** `text` is the parameter after the column name. `put` adds a value to the statement. */
export function parseSpatial(
  name: SpatialName,
  text: string,
  column: Column,
  put: (value: string | number) => SpatialArg,
): SpatialFilter {
  const putBox = ({ west, south, east, north }: Box): BoxArgs => [west, south, east, north].map(put)
  const candidates = (boxes: readonly Box[]): BoxArgs[] =>
    (isInDegrees(column) ? boxes : (widened(boxes) ?? [])).map(putBox)
  // Coordinates without a reference system need not be degrees.
  const requireOnEarth = (box: Box): void => {
    if ((column.isGeography || column.srid !== 0) && !isOnEarth(box)) throw invalid(name, OFF_EARTH)
  }
  switch (name) {
    case 'near': {
      const [lng, lat, meters] = numbersOf(name, text, ['longitude', 'latitude', 'meters'])
      if (meters < 0) throw invalid(name, 'meters must not be negative')
      requirePoint(name, lng, lat)
      const reach = Math.min(meters, MAX_METERS)
      return {
        name,
        values: [lng, lat, reach].map(put),
        boxes: [],
        candidates: candidates(boxesAround(lng, lat, reach)),
      }
    }
    case 'bbox': {
      const [west, south, east, north] = numbersOf(name, text, ['minLng', 'minLat', 'maxLng', 'maxLat'])
      if (south > north) throw invalid(name, 'minLat must not be greater than maxLat')
      requireOnEarth({ west: Math.min(west, east), south, east: Math.max(west, east), north })
      if (west > east && !isOnEarth({ west: east, south, east: west, north })) {
        throw invalid(name, 'minLng must not be greater than maxLng')
      }
      const boxes = boxesBetween({ west, south, east, north })
      return { name, values: [], boxes: boxes.map(putBox), candidates: candidates(boxes) }
    }
    case 'within':
    case 'intersects': {
      const geometry = geometryOf(name, text)
      const bounds = boundsOf(geometry)
      if (!bounds) throw invalid(name, 'geometry is empty')
      requireOnEarth(bounds)
      return { name, values: [put(JSON.stringify(geometry))], boxes: [], candidates: candidates([bounds]) }
    }
  }
}

/** A point that distances are measured from. */
export function requirePoint(name: string, lng: number, lat: number): void {
  if (!isOnEarth({ west: lng, south: lat, east: lng, north: lat })) throw invalid(name, OFF_EARTH)
}

const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i

type NumbersOf<Names extends readonly string[]> = { [K in keyof Names]: number }

/** Exactly as many numbers as names, separated by commas. */
export function numbersOf<const Names extends readonly string[]>(
  name: string,
  text: string,
  names: Names,
): NumbersOf<Names> {
  const parts = text.split(',').map((part) => part.trim())
  if (parts.length !== names.length) throw invalid(name, `expected ${names.join(',')}`)
  return parts.map((part, i) => {
    const number = NUMBER.test(part) ? Number(part) : Number.NaN
    if (!Number.isFinite(number)) throw invalid(name, `${names[i]} must be a number`)
    return number
  }) as NumbersOf<Names>
}

const AREAS: ReadonlySet<unknown> = new Set(['Polygon', 'MultiPolygon'])

function geometryOf(name: 'within' | 'intersects', text: string): unknown {
  let geometry: unknown
  try {
    geometry = JSON.parse(text)
  } catch {
    throw invalid(name, 'expected GeoJSON')
  }
  if (!isGeoJson(geometry)) throw invalid(name, 'invalid GeoJSON geometry')
  if (name === 'within' && !AREAS.has((geometry as { type: unknown }).type)) {
    throw invalid(name, 'expected a Polygon or MultiPolygon')
  }
  return geometry
}
