import { badRequest } from '../../../../core/errors.ts'

type Query = Readonly<Record<string, string>>

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
export function parseVectors(query: Query): VectorQuery | undefined {
  const { nearest, semantic_query: text, search = '' } = query
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

function parseNumbers(text: string): Near {
  const numbers = parsed(text)
  if (!Array.isArray(numbers) || !numbers.every(Number.isFinite)) {
    throw badRequest('nearest must be a JSON array of numbers', 'invalid_vector')
  }
  if (numbers.length === 0) throw badRequest('nearest must not be empty', 'invalid_vector')
  return { numbers, written: text.trim() }
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
