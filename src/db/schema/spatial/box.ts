/** In degrees; an area across the date line is two boxes. */
export type Box = { readonly west: number; readonly south: number; readonly east: number; readonly north: number }

/** The smallest radius of curvature of WGS 84, so that the boxes are never too small. */
const LEAST_RADIUS_METERS = 6_335_439
const degrees = (radians: number): number => (radians * 180) / Math.PI
const radians = (degree: number): number => (degree * Math.PI) / 180

/** Boxes that contain everything within a distance of a point, with a small margin. */
export function boxesAround(lng: number, lat: number, meters: number): Box[] {
  const angle = (meters / LEAST_RADIUS_METERS) * 1.01 + 1e-9
  const [south, north] = [lat - degrees(angle), lat + degrees(angle)]
  // A circle around a pole crosses every meridian.
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

/** The bounds of a valid GeoJSON geometry; undefined when it is empty. */
export function boundsOf(geometry: unknown): Box | undefined {
  const box = { west: Infinity, south: Infinity, east: -Infinity, north: -Infinity }
  const extend = (part: unknown): void => {
    if (!Array.isArray(part)) return
    const [x, y] = part as unknown[]
    if (typeof x !== 'number' || typeof y !== 'number') {
      for (const inner of part) extend(inner)
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
    else extend(coordinates)
  }
  walk(geometry)
  return box.west <= box.east ? box : undefined
}

export const isOnEarth = ({ west, south, east, north }: Box): boolean =>
  west >= -180 && east <= 180 && south >= -90 && north <= 90

const MAX_DEGREES = 90
const MAX_LATITUDE = 85
const MARGIN_DEGREES = 0.05

/**
 * The boxes with a margin, because straight lines are curves on a globe and in other projections. Undefined for boxes so
 * large or so near to a pole that no margin suffices.
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
    east - west <= MAX_DEGREES && south >= -MAX_LATITUDE && north <= MAX_LATITUDE
  return wide.every(fits) ? wide : undefined
}
