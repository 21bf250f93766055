import { badRequest } from '../../../core/errors.ts'

type Form = (coordinates: unknown) => boolean

const listOf =
  (part: Form, atLeast = 0): Form =>
  (value) =>
    Array.isArray(value) && value.length >= atLeast && value.every(part)

const isPosition: Form = (value) =>
  Array.isArray(value) && value.length >= 2 && value.length <= 4 && value.every(Number.isFinite)

const isLine = listOf(isPosition, 2)

const isRing: Form = (value) => {
  if (!Array.isArray(value) || value.length < 4 || !value.every(isPosition)) return false
  const [first, last] = [value[0] as number[], value.at(-1) as number[]]
  return first[0] === last[0] && first[1] === last[1]
}

const isPolygon = listOf(isRing)

/** An empty geometry has an empty array. */
const orEmpty =
  (form: Form): Form =>
  (value) =>
    (Array.isArray(value) && value.length === 0) || form(value)

/** RFC 7946 §3.1. */
const FORMS: ReadonlyMap<unknown, Form> = new Map([
  ['Point', orEmpty(isPosition)],
  ['MultiPoint', listOf(isPosition)],
  ['LineString', orEmpty(isLine)],
  ['MultiLineString', listOf(isLine)],
  ['Polygon', isPolygon],
  ['MultiPolygon', listOf(isPolygon)],
])
const MAX_COLLECTION_DEPTH = 8

export const invalidGeoJson = () => badRequest('invalid GeoJSON geometry', 'invalid_geometry')

/**
 * Whether a value has the form of a GeoJSON geometry. Checked here because PostGIS accepts some invalid ones and reports
 * others as internal errors.
 */
export function isGeoJson(value: unknown, depth = 0): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { type, coordinates, geometries } = value as Record<string, unknown>
  if (type !== 'GeometryCollection') return FORMS.get(type)?.(coordinates) ?? false
  const isPart = (part: unknown) => isGeoJson(part, depth + 1)
  return depth < MAX_COLLECTION_DEPTH && Array.isArray(geometries) && geometries.every(isPart)
}
