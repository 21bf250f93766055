import type { Outgoing, OutgoingResponse } from '../../../http/out/outgoing.ts'

/** The protocol of an embedding server. */
export type Dialect = {
  url: string
  headers: Record<string, string>
  body(texts: readonly string[]): object
  /** The vectors in the order of the texts, not yet checked. */
  vectors(answer: unknown): unknown
}

/** Response bytes per text: the longest vector with its numbers as decimals. */
const MAX_BYTES = 640 * 1024
const MAX_DIMENSIONS = 16_000

const at = (base: string, path: string): string => base.replace(/\/+$/, '') + path

/** OpenAI and compatible servers: vLLM, llama.cpp, Ollama under /v1 and others. */
export const openAi = (config: { base_url: string; api_key: string }, model: string): Dialect => ({
  url: at(config.base_url, '/embeddings'),
  headers: config.api_key === '' ? {} : { Authorization: `Bearer ${config.api_key}` },
  body: (input) => ({ model: model || 'text-embedding-3-small', input, encoding_format: 'float' }),
  vectors: (answer) => {
    const data = (answer as { data?: { index?: number; embedding?: unknown }[] } | null)?.data
    if (!Array.isArray(data)) return undefined
    return [...data].sort((a, b) => (a?.index ?? 0) - (b?.index ?? 0)).map((one) => one?.embedding)
  },
})

export const ollama = (config: { base_url: string }, model: string): Dialect => ({
  url: at(config.base_url, '/api/embed'),
  headers: {},
  body: (input) => ({ model: model || 'nomic-embed-text', input }),
  vectors: (answer) => (answer as { embeddings?: unknown } | null)?.embeddings,
})

/** Sends one request, without retries. */
export const requestVectors = (
  outgoing: Outgoing,
  dialect: Dialect,
  texts: readonly string[],
  timeoutMs: number,
): Promise<OutgoingResponse> =>
  outgoing.request({
    method: 'POST',
    url: dialect.url,
    headers: { 'Content-Type': 'application/json', ...dialect.headers },
    body: JSON.stringify(dialect.body(texts)),
    timeoutMs,
    maxBytes: MAX_BYTES * texts.length,
  })

/** Undefined if the response is not one vector per text. */
export function readVectors(dialect: Dialect, answer: OutgoingResponse, count: number): number[][] | undefined {
  const vectors = dialect.vectors(parsed(answer.body))
  return Array.isArray(vectors) && vectors.length === count && vectors.every(isVector) ? vectors : undefined
}

const isVector = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > 0 && value.length <= MAX_DIMENSIONS && value.every(Number.isFinite)

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
