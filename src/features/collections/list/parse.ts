import { badRequest } from '../../../core/errors.ts'
import { parsePage } from '../../../core/page.ts'
import { roundedUp } from '../../../db/rows/order.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { type Filter, parseFilter } from '../../../db/schema/filter/parse.ts'
import type { Slot, Slots } from '../../../db/sql.ts'
import { parseSearch, type SearchQuery } from './stages/search/parse.ts'
import { type DistanceKey, parseDistance, parseRegions, type RegionFilter } from './stages/spatial/parse.ts'

type Query = Readonly<Record<string, string>>

/** The parsed query of a read, with the client's names. */
export type RowQuery = {
  /** undefined = all columns. */
  readonly fields: readonly string[] | undefined
  /** Paths of relation names. */
  readonly expand: readonly (readonly string[])[]
  /** Characters beyond which values are cut; undefined = never. */
  readonly cut?: Slot | undefined
}

export type SortKey = { readonly name: string; readonly descending: boolean }

/** The parsed query of a list. Values are in slots, so that all lists of one shape are equal. */
export type ListQuery = RowQuery & {
  readonly filter: Filter | undefined
  readonly sort: readonly SortKey[]
  readonly window: PageWindow
  readonly skipTotal: boolean
  readonly search: SearchQuery | undefined
  readonly facets: readonly string[]
  /** The planner's estimate of the total, used instead of counting. */
  readonly estimate: Slot | undefined
  /** The total is counted up to MAX_COUNTED. */
  readonly isBounded: boolean
  readonly regions: readonly RegionFilter[]
  readonly distance: DistanceKey | undefined
}

/** The requested part of the ordered rows. */
export type PageWindow = {
  readonly page: Slot
  readonly perPage: Slot
  readonly offset: Slot
  /** The page may have so many rows that their bytes are counted. */
  readonly isLong: boolean
  /** The end of the window, rounded up so that there are few different statements. */
  readonly reach: number
}

const MAX_SORT = 10
const MAX_EXPAND = 10
const MAX_EXPAND_DEPTH = 3
/** Rows of a page of which all may be large. */
const SHORT_PAGE = 50
const NOTHING: readonly never[] = []
export const PAGES = { perPage: 20, maxPerPage: 500 }

export function parseRow(query: Query): RowQuery {
  return { fields: parseFields(query['fields']), expand: parseExpand(query['expand']) }
}

function parseFields(text: string | undefined): readonly string[] | undefined {
  const fields = names(text)
  return fields.length > 0 ? [...new Set(fields)] : undefined
}

/** How a total that need not be exact is found: by this estimate, or by a count with an end. */
export type Estimate = number | 'bounded' | undefined

export function parseList(query: Query, slots: Slots, target: TableView, estimate?: Estimate): ListQuery {
  const { distance, rest } = parseDistance(query['sort'], target, slots)
  return {
    fields: parseFields(query['fields']),
    expand: parseExpand(query['expand']),
    filter: parseFilter(query['filter'] ?? '', slots),
    sort: parseSort(rest),
    window: parseWindow(query, slots),
    search: parseSearch(query, slots),
    facets: query['facets'] ? [...new Set(names(query['facets']))] : NOTHING,
    skipTotal: query['total'] === 'none' || (query['total'] === undefined && query['skipTotal'] === 'true'),
    estimate: typeof estimate === 'number' ? slots.put(estimate) : undefined,
    isBounded: estimate === 'bounded',
    regions: parseRegions(query, target, slots),
    distance,
    cut: query['cut'] ? slots.put(parseCut(query['cut'])) : undefined,
  }
}

const MAX_CUT = 1_000_000

function parseCut(text: string): number {
  const cut = /^\d{1,7}$/.test(text) ? Number(text) : 0
  if (cut < 1 || cut > MAX_CUT) throw badRequest(`cut must be a number from 1 to ${MAX_CUT}`)
  return cut
}

function parseWindow(query: Query, slots: Slots): PageWindow {
  const { page, perPage, offset } = parsePage({ page: query['page'], perPage: query['perPage'] }, PAGES)
  return {
    page: slots.put(page),
    perPage: slots.put(perPage),
    offset: slots.put(offset),
    isLong: perPage > SHORT_PAGE,
    reach: roundedUp(offset + perPage),
  }
}

export function parseSort(text: string | undefined): readonly SortKey[] {
  if (!text) return NOTHING
  // An unencoded plus arrives as a space, which is trimmed; both mean ascending.
  const keys = names(text).map((name) => ({ name: name.replace(/^[+-]\s*/, ''), descending: name.startsWith('-') }))
  if (keys.length > MAX_SORT) throw badRequest('too many sort fields', 'invalid_sort')
  return keys
}

function parseExpand(text: string | undefined): readonly (readonly string[])[] {
  if (!text) return NOTHING
  const paths = names(text).map((path) => path.split('.'))
  if (paths.length > MAX_EXPAND) throw badRequest('too many relations in expand parameter')
  if (paths.some((path) => path.length > MAX_EXPAND_DEPTH)) throw badRequest(`expand depth exceeds ${MAX_EXPAND_DEPTH}`)
  return paths
}

export const names = (text = ''): string[] => {
  if (text === '') return []
  return text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
}
