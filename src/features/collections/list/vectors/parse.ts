import { badRequest } from '../../../../core/errors.ts'
import type { Call } from '../../../../http/route.ts'

export const DISTANCE_METRICS = ['cosine', 'l2', 'inner_product'] as const
export type Metric = (typeof DISTANCE_METRICS)[number]

/** Numbers with their original text, or a text that has to be embedded first. */
export type Near = { readonly numbers: readonly number[]; readonly written: string } | { readonly text: string }

export type VectorQuery = {
  readonly near: Near
  /** Combined with full-text search for the same text. */
  readonly hybrid: boolean
  readonly column: string | undefined
  readonly metric: Metric
}

/** Options of full-text search, which do not apply because every row has a distance. */
const UNSUPPORTED = ['fuzzy', 'typo_threshold', 'facets', 'highlight']
const MAX_TEXT = 10_000

/** Undefined: not a vector search. */
export function parseVectors(call: Pick<Call, 'query' | 'repeated' | 'target'>): VectorQuery | undefined {
  const { query } = call
  const { semantic_query: text, search = '' } = query
  const nearest = call.repeated.has('nearest') ? allOf('nearest', call.target) : query['nearest']
  const semantic = query['semantic'] === 'true'
  if (nearest === undefined && text === undefined && !semantic) return undefined
  if ((nearest !== undefined && text !== undefined) || (semantic && (nearest ?? text) !== undefined)) {
    throw badRequest('choose one of nearest, semantic_query, semantic', 'invalid_vector')
  }
  if (semantic && search.trim() === '') return undefined
  const unsupported = UNSUPPORTED.find((name) => query[name] !== undefined)
  if (unsupported) throw badRequest(`unsupported parameter "${unsupported}" in vector mode`)
  return {
    near: nearest === undefined ? parseText(semantic ? search : (text ?? '')) : parseNumbers(nearest),
    hybrid: semantic,
    column: query['vector_column'] || undefined,
    metric: parseMetric(query['distance']),
  }
}

function parseMetric(text: string | undefined): Metric {
  const metric = DISTANCE_METRICS.find((one) => one === (text || 'cosine'))
  if (!metric) throw badRequest('distance must be cosine, l2 or inner_product')
  return metric
}

const allOf = (name: string, target: string): string =>
  new URLSearchParams(target.slice(target.indexOf('?'))).getAll(name).join(',')

/** A JSON array, or its numbers alone, as they are written or repeated in a query. */
function parseNumbers(text: string): Near {
  const trimmed = text.trim()
  const written = trimmed.includes(',') && !trimmed.startsWith('[') ? `[${trimmed}]` : trimmed
  const numbers = parsed(written)
  if (!Array.isArray(numbers) || !numbers.every(Number.isFinite)) {
    throw badRequest('nearest must be a JSON array of numbers', 'invalid_vector')
  }
  if (numbers.length === 0) throw badRequest('nearest must not be empty', 'invalid_vector')
  return { numbers, written }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function parseText(text: string): Near {
  const trimmed = text.trim()
  if (trimmed === '') throw badRequest('semantic_query must not be empty')
  if (trimmed.length > MAX_TEXT) throw badRequest('semantic_query too long')
  return { text: trimmed }
}
