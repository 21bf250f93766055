import { LRUCache } from 'lru-cache'
import type { Observe } from '../../../core/observe.ts'
import type { Outgoing } from '../../../http/out/outgoing.ts'
import { ollama, openAi } from './dialects.ts'
import { hashProvider } from './hash.ts'
import type { EmbeddingProvider } from './provider.ts'
import { RemoteProvider } from './remote-provider.ts'

export type AiConfig = {
  embedding_provider: '' | 'openai' | 'ollama' | 'hash'
  embedding_model: string
  timeout: number
  max_retries: number
  openai: { api_key: string; base_url: string }
  ollama: { base_url: string }
  breaker: { failure_threshold: number; open_seconds: number }
}

type Deps = { config: AiConfig; outgoing: Outgoing; observe: Observe }

/** Bytes of cached texts and their vectors. */
const CACHE_BYTES = 16 * 1024 * 1024
const CACHE_SECONDS = 3600

/** Undefined: none is configured. */
export function createEmbeddingProvider({ config, outgoing, observe }: Deps): EmbeddingProvider | undefined {
  const { embedding_provider: name, embedding_model: model, timeout, max_retries: maxRetries, breaker } = config
  if (name === '') return undefined
  if (name === 'hash') return hashProvider
  const dialect = name === 'openai' ? openAi(config.openai, model) : ollama(config.ollama, model)
  return new RemoteProvider({ outgoing, dialect, timeout, maxRetries, breaker, observe })
}

/** Embeds search texts and caches the vectors of recent ones, because searches repeat. Failures are not cached. */
export function cachedEmbed(provider: EmbeddingProvider) {
  const known = new LRUCache<string, readonly number[]>({ maxSize: CACHE_BYTES, ttl: CACHE_SECONDS * 1000 })
  return async (text: string, dimensions: number | undefined): Promise<readonly number[]> => {
    const key = `${dimensions ?? ''} ${text}`
    const kept = known.get(key)
    if (kept) return kept
    const [vector = []] = await provider.embed([text], dimensions)
    known.set(key, vector, { size: 8 * vector.length + 2 * key.length })
    return vector
  }
}
