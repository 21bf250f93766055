import type { Fn } from '../../db/schema/snapshot.ts'
import { invalidGeoJson, isGeoJson } from '../../db/schema/spatial/geojson.ts'
import { isSpatial } from '../../db/schema/spatial-conversion.ts'

export function requireGeoJson(fn: Fn, args: Readonly<Record<string, unknown>>): void {
  for (const parameter of fn.parameters) {
    const value = args[parameter.name] ?? null
    if (isSpatial(parameter) && value !== null && !isGeoJson(value)) throw invalidGeoJson()
  }
}
