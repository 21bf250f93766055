import { badRequest } from '../../../core/errors.ts'
import { pageOf } from '../../../core/page.ts'
import { type Filter, parseFilter } from '../../../db/schema/filter/parse.ts'
import { queryBoolean } from '../../../http/fields.ts'

type Query = Readonly<Record<string, string>>

/** What a read asks for, in the client's own names. */
export type RowQuery = {
  /** undefined = all columns. */
  readonly fields: readonly string[] | undefined
  /** Paths of relation names. */
  readonly expand: readonly (readonly string[])[]
}

export type SortKey = { readonly name: string; readonly descending: boolean }

export type ListQuery = RowQuery & {
  readonly filter: Filter | undefined
  readonly sort: readonly SortKey[]
  readonly page: number
  readonly perPage: number
  readonly skipTotal: boolean
}

const MAX_SORT = 10
const MAX_EXPAND = 10
const MAX_EXPAND_DEPTH = 3
const PAGES = { perPage: 20, maxPerPage: 500 }

export function parseRow(query: Query): RowQuery {
  const fields = names(query['fields'])
  return { fields: fields.length > 0 ? [...new Set(fields)] : undefined, expand: parseExpand(query['expand']) }
}

export function parseList(query: Query): ListQuery {
  const { page, perPage } = pageOf({ page: query['page'], perPage: query['perPage'] }, PAGES)
  return {
    ...parseRow(query),
    filter: parseFilter(query['filter'] ?? ''),
    sort: parseSort(query['sort']),
    page,
    perPage,
    skipTotal: queryBoolean(query, 'skipTotal') ?? false,
  }
}

function parseSort(text: string | undefined): SortKey[] {
  // An unencoded plus arrives as a space, which is trimmed away: ascending either way.
  const keys = names(text).map((name) => ({ name: name.replace(/^[+-]\s*/, ''), descending: name.startsWith('-') }))
  if (keys.length > MAX_SORT) throw badRequest('too many sort fields')
  return keys
}

function parseExpand(text: string | undefined): string[][] {
  const paths = names(text).map((path) => path.split('.'))
  if (paths.length > MAX_EXPAND) throw badRequest('too many relations in expand parameter')
  if (paths.some((path) => path.length > MAX_EXPAND_DEPTH)) throw badRequest(`expand depth exceeds ${MAX_EXPAND_DEPTH}`)
  return paths
}

const names = (text: string | undefined): string[] =>
  (text ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
