import { badRequest } from '../../../../../core/errors.ts'
import type { Slot, Slots } from '../../../../../db/sql.ts'
import { splitTerm } from './term.ts'

type Query = Readonly<Record<string, string>>

export type SearchQuery = {
  readonly term: Slot
  readonly fuzzy: FuzzyQuery | undefined
  readonly highlight: boolean
}

export type FuzzyQuery = {
  /** Rows should be similar to these. */
  readonly words: Slot
  /** A search that rows must not match. */
  readonly excluded: Slot | undefined
  readonly threshold: Slot
}

const MAX_TERM = 1000
const THRESHOLD = 0.2

export function parseSearch(query: Query, slots: Slots): SearchQuery | undefined {
  const term = query['search'] ?? ''
  // The limit is in code points, which are counted only if there may be too many.
  if (term.length > MAX_TERM && (term.length > 2 * MAX_TERM || [...term].length > MAX_TERM)) {
    throw badRequest('search term too long', 'invalid_search')
  }
  const isBlank = term.trim() === ''
  const isFuzzy = query['fuzzy'] === 'true'
  if (isFuzzy && isBlank) throw badRequest('fuzzy parameter requires non-empty search', 'invalid_search')
  const threshold = parseThreshold(query['typo_threshold'])
  if (threshold !== undefined && !isFuzzy) throw badRequest('typo_threshold requires fuzzy=true', 'invalid_search')
  if (isBlank) return undefined
  return {
    term: slots.put(term),
    fuzzy: isFuzzy ? parseFuzzy(term, threshold ?? THRESHOLD, slots) : undefined,
    highlight: query['highlight'] === 'true',
  }
}

function parseFuzzy(term: string, threshold: number, slots: Slots): FuzzyQuery {
  const { words, excluded } = splitTerm(term)
  return {
    words: slots.put(words),
    excluded: excluded === '' ? undefined : slots.put(excluded),
    threshold: slots.put(threshold),
  }
}

function parseThreshold(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const threshold = /^\+?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i.test(text.trim()) ? Number(text) : Number.NaN
  if (!(threshold >= 0 && threshold <= 1))
    throw badRequest('typo_threshold must be a number between 0 and 1', 'invalid_search')
  return threshold
}

/** Whether the search needs pg_trgm, provided that it is valid. */
export const needsTrigrams = (query: Query): boolean =>
  query['fuzzy'] === 'true' && (query['search'] ?? '').trim() !== ''
