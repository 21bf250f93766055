import { badRequest } from '../../../../../core/errors.ts'
import type { TableView } from '../../../../../db/rows/table-view.ts'
import {
  numbersOf,
  parseSpatial,
  requirePoint,
  requirePostGis,
  requireSpatial,
  SPATIAL_NAMES,
  type SpatialFilter,
} from '../../../../../db/schema/spatial/parse.ts'
import { columnFor } from '../../../../../db/schema/viewer.ts'
import type { Slot, Slots } from '../../../../../db/sql.ts'

type Query = Readonly<Record<string, string>>

/** A spatial filter with the name of its column. */
export type RegionFilter = SpatialFilter & { readonly column: string }

export type DistanceKey = {
  readonly column: string
  readonly descending: boolean
  readonly lng: Slot
  readonly lat: Slot
}

const NOTHING: readonly RegionFilter[] = []

/** Parses `near=column,…` and the other spatial parameters. The type of the column decides which values are valid. */
export function parseRegions(
  query: Query,
  { schema, table, viewer }: TableView,
  slots: Slots,
): readonly RegionFilter[] {
  if (!SPATIAL_NAMES.some((name) => query[name])) return NOTHING
  return SPATIAL_NAMES.flatMap((name) => {
    const text = query[name]
    if (text === undefined || text === '') return []
    requirePostGis(schema)
    const comma = text.indexOf(',')
    const column = (comma === -1 ? text : text.slice(0, comma)).trim()
    const found = requireSpatial(columnFor(table, column, viewer.role), column)
    const given = comma === -1 ? '' : text.slice(comma + 1)
    return [{ ...parseSpatial(name, given, found, (value) => slots.put(value)), column }]
  })
}

const DISTANCE = /^\s*([+-]?)\s*([^,()]+)\.distance\(([^()]*)\)\s*(?:,|$)/

/** Parses `sort=column.distance(lng,lat)`; `rest` is the remaining sort. */
export function parseDistance(
  sort: string | undefined,
  { schema, table, viewer }: TableView,
  slots: Slots,
): { distance: DistanceKey | undefined; rest: string | undefined } {
  if (sort === undefined || !sort.includes('.distance(')) return { distance: undefined, rest: sort }
  requirePostGis(schema)
  const [matched, sign, column = '', point = ''] = DISTANCE.exec(sort) ?? []
  const rest = sort.slice(matched?.length ?? 0)
  if (matched === undefined || rest.includes('.distance(')) {
    throw badRequest(
      'invalid sort parameter: a distance is written column.distance(lng,lat) and comes first',
      'invalid_sort',
    )
  }
  requireSpatial(columnFor(table, column, viewer.role), column)
  const [lng, lat] = numbersOf('sort', point, ['longitude', 'latitude'])
  requirePoint('sort', lng, lat)
  return { distance: { column, descending: sign === '-', lng: slots.put(lng), lat: slots.put(lat) }, rest }
}
