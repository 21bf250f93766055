type Position = [number, number]
type Shape = { points: Position[]; lines: Position[][]; areas: Position[][] }

const TYPES =
  /"type"\s*:\s*"(Point|MultiPoint|LineString|MultiLineString|Polygon|MultiPolygon|GeometryCollection|Feature|FeatureCollection)"/

/** Whether a JSON text may be drawn. */
export const isGeoJson = (text: string): boolean =>
  text.length < 1_000_000 && TYPES.test(text) && /"(coordinates|geometries|features|geometry)"/.test(text)

/** How deep positions lie in the lists of each. */
const DEPTHS: ReadonlyMap<string, number> = new Map([
  ['Point', 0],
  ['MultiPoint', 1],
  ['LineString', 1],
  ['MultiLineString', 2],
  ['Polygon', 2],
  ['MultiPolygon', 3],
])

const isNested = (value: unknown, depth: number): boolean =>
  depth >= 0 &&
  Array.isArray(value) &&
  (depth === 0
    ? value.length >= 2 && value.every((one) => typeof one === 'number')
    : value.every((one) => isNested(one, depth - 1)))

function collect(value: unknown, shape: Shape): void {
  if (typeof value !== 'object' || value === null) return
  const { type, coordinates, geometries, features, geometry } = value as {
    type?: string
    coordinates?: unknown
    geometries?: unknown
    features?: unknown
    geometry?: unknown
  }
  for (const parts of [geometries, features]) if (Array.isArray(parts)) for (const part of parts) collect(part, shape)
  if (geometry) collect(geometry, shape)
  if (!isNested(coordinates, DEPTHS.get(type ?? '') ?? -1)) return
  if (type === 'Point') shape.points.push(coordinates as Position)
  if (type === 'MultiPoint') shape.points.push(...(coordinates as Position[]))
  if (type === 'LineString') shape.lines.push(coordinates as Position[])
  if (type === 'MultiLineString') shape.lines.push(...(coordinates as Position[][]))
  if (type === 'Polygon') shape.areas.push(...(coordinates as Position[][]))
  if (type === 'MultiPolygon') shape.areas.push(...(coordinates as Position[][][]).flat())
}

const path = (line: readonly Position[]): string =>
  line.map(([x, y], index) => `${index === 0 ? 'M' : 'L'}${x} ${-y}`).join('')

/** GeoJSON on a plain map: longitude and latitude, lines every few degrees, no tiles from elsewhere. */
export function Places({ value }: { value: unknown }) {
  const shape: Shape = { points: [], lines: [], areas: [] }
  collect(value, shape)
  const all = [...shape.points, ...shape.lines.flat(), ...shape.areas.flat()].filter(
    ([x, y]) => Number.isFinite(x) && Number.isFinite(y),
  )
  if (all.length === 0) return <p className="muted">No place.</p>
  const xs = all.map(([x]) => x)
  const ys = all.map(([, y]) => y)
  const [west, east] = [Math.min(...xs), Math.max(...xs)]
  const [south, north] = [Math.min(...ys), Math.max(...ys)]
  const size = Math.max(east - west, (north - south) * 2, 0.02) * 1.4
  const [left, top] = [(west + east) / 2 - size / 2, -(south + north) / 2 - size / 4]
  const step = 10 ** Math.floor(Math.log10(size / 2))
  const ticks = (from: number, length: number): number[] =>
    Array.from({ length: Math.ceil(length / step) + 1 }, (_, index) => Math.ceil(from / step) * step + index * step)
  return (
    <svg
      className="map"
      viewBox={`${left} ${top} ${size} ${size / 2}`}
      role="img"
      aria-label={`${all.length} positions from ${west}, ${south} to ${east}, ${north}`}
    >
      {ticks(left, size).map((x) => (
        <line key={`x${x}`} x1={x} x2={x} y1={top} y2={top + size / 2} />
      ))}
      {ticks(top, size / 2).map((y) => (
        <line key={`y${y}`} x1={left} x2={left + size} y1={y} y2={y} />
      ))}
      {shape.areas.map((area) => (
        <path key={path(area)} d={`${path(area)}Z`} />
      ))}
      {shape.lines.map((line) => (
        <path key={path(line)} d={path(line)} style={{ fill: 'none' }} />
      ))}
      {shape.points.map(([x, y]) => (
        <circle key={`${x} ${y}`} cx={x} cy={-y} r={size / 90} />
      ))}
    </svg>
  )
}
