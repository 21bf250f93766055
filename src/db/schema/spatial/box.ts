/** In degrees; never across the date line, which takes two of them. */
export type Box = { readonly west: number; readonly south: number; readonly east: number; readonly north: number }

/** The smallest radius of curvature of WGS 84, so that a distance never covers too few degrees. */
const LEAST_RADIUS_METERS = 6_335_439
const degrees = (radians: number): number => (radians * 180) / Math.PI
const radians = (degree: number): number => (degree * Math.PI) / 180

/** Boxes that hold everything within a distance of a point, and somewhat more. */
export function boxesAround(lng: number, lat: number, meters: number): Box[] {
  const angle = (meters / LEAST_RADIUS_METERS) * 1.01 + 1e-9
  const [south, north] = [lat - degrees(angle), lat + degrees(angle)]
  // A circle that holds a pole meets every meridian.
  if (south <= -90 || north >= 90) {
    return [{ west: -180, south: Math.max(south, -90), east: 180, north: Math.min(north, 90) }]
  }
  const width = degrees(Math.asin(Math.min(1, Math.sin(angle) / Math.cos(radians(lat)))))
  const [west, east] = [lng - width, lng + width]
  if (west < -180) return boxesBetween({ west: west + 360, south, east, north })
  return boxesBetween({ west, south, east: east > 180 ? east - 360 : east, north })
}

/** West beyond east is across the date line (RFC 7946 §5.2). */
export const boxesBetween = (box: Box): Box[] =>
  box.west <= box.east
    ? [box]
    : [
        { ...box, east: 180 },
        { ...box, west: -180 },
      ]

/** Where the coordinates of a GeoJSON geometry of good form lie; undefined when it has none. */
export function boundsOf(geometry: unknown): Box | undefined {
  const box = { west: Infinity, south: Infinity, east: -Infinity, north: -Infinity }
  const look = (part: unknown): void => {
    if (!Array.isArray(part)) return
    const [x, y] = part as unknown[]
    if (typeof x !== 'number' || typeof y !== 'number') {
      for (const inner of part) look(inner)
      return
    }
    box.west = Math.min(box.west, x)
    box.east = Math.max(box.east, x)
    box.south = Math.min(box.south, y)
    box.north = Math.max(box.north, y)
  }
  const walk = (part: unknown): void => {
    const { type, coordinates, geometries } = part as Readonly<Record<string, unknown>>
    if (type === 'GeometryCollection') for (const inner of geometries as unknown[]) walk(inner)
    else look(coordinates)
  }
  walk(geometry)
  return box.west <= box.east ? box : undefined
}

export const isOnEarth = ({ west, south, east, north }: Box): boolean =>
  west >= -180 && east <= 180 && south >= -90 && north <= 90

const MOST_DEGREES = 90
const MOST_LATITUDE = 85
const MARGIN_DEGREES = 0.05

/**
 * The boxes with a margin, because straight lines are curves on a globe and on other maps. Undefined where they are so
 * large or so near to a pole that no margin would do.
 */
export function widened(boxes: readonly Box[]): Box[] | undefined {
  const wide = boxes.map(({ west, south, east, north }): Box => {
    const margin = MARGIN_DEGREES + Math.max(east - west, north - south) * 0.02
    return {
      west: Math.max(west - margin, -180),
      south: south - margin,
      east: Math.min(east + margin, 180),
      north: north + margin,
    }
  })
  const fits = ({ west, south, east, north }: Box): boolean =>
    east - west <= MOST_DEGREES && south >= -MOST_LATITUDE && north <= MOST_LATITUDE
  return wide.every(fits) ? wide : undefined
}
