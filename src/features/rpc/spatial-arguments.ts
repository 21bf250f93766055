import type { Fn } from '../../db/schema/snapshot.ts'
import { invalidGeoJson, isGeoJson } from '../../db/schema/spatial/geojson.ts'
import { isSpatial } from '../../db/schema/spatial-conversion.ts'

export function requireGeoJson(fn: Fn, args: Readonly<Record<string, unknown>>): void {
  for (const parameter of fn.parameters) {
    if (!isSpatial(parameter) || !Object.hasOwn(args, parameter.name)) continue
    const value = args[parameter.name] ?? null
    if (value !== null && !isGeoJson(value)) throw invalidGeoJson()
  }
}
