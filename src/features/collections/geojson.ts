/** How deep the coordinates of each geometry are nested (RFC 7946 §3.1). */
const DEPTH: ReadonlyMap<unknown, number> = new Map([
  ['Point', 1],
  ['MultiPoint', 2],
  ['LineString', 2],
  ['MultiLineString', 3],
  ['Polygon', 3],
  ['MultiPolygon', 4],
])
const MAX_COLLECTION_DEPTH = 8

/**
 * Whether a value has the form of a GeoJSON geometry. PostGIS reports a bad one as an internal error of its own, so
 * the form is checked before; whether rings close and the like is left to PostGIS.
 */
export function isGeoJson(value: unknown, depth = 0): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { type, coordinates, geometries } = value as Record<string, unknown>
  if (type === 'GeometryCollection') {
    return (
      depth < MAX_COLLECTION_DEPTH &&
      Array.isArray(geometries) &&
      geometries.every((part) => isGeoJson(part, depth + 1))
    )
  }
  const nesting = DEPTH.get(type)
  return nesting !== undefined && areCoordinates(coordinates, nesting)
}

function areCoordinates(value: unknown, nesting: number): boolean {
  if (!Array.isArray(value)) return false
  if (nesting > 1) return value.every((part) => areCoordinates(part, nesting - 1))
  // An empty position is how an empty point is written.
  return (
    (value.length === 0 || value.length >= 2) && value.length <= 4 && value.every((part) => typeof part === 'number')
  )
}
