import type { Fn } from '../../db/schema/snapshot.ts'
import { isSpatial } from '../../db/schema/spatial/convert.ts'
import { invalidGeoJson, isGeoJson } from '../../db/schema/spatial/geojson.ts'

export function requireGeoJson(fn: Fn, args: Readonly<Record<string, unknown>>): void {
  for (const parameter of fn.parameters) {
    const value = args[parameter.name] ?? null
    if (isSpatial(parameter) && value !== null && !isGeoJson(value)) throw invalidGeoJson()
  }
}
