import * as t from '../../core/json-type.ts'
import type { Observe } from '../../core/observe.ts'
import type { ChangeLog } from '../../db/changes/log.ts'
import type { Db } from '../../db/db.ts'
import type { Pool } from '../../db/pool/pool.ts'
import type { Queue } from '../../db/queue/queue.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import { ConcurrentIndexes } from '../../db/setup/concurrent-index.ts'
import type { Feature } from '../../http/feature.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { json, jsonText, noContentAfter, route } from '../../http/route.ts'
import { startEmbedWorker } from './embed/embed-worker.ts'
import { createEmbeddings } from './embed/embeddings.ts'
import { type AiConfig, cachedEmbed, createEmbeddingProvider } from './embedding/embedder.ts'
import { createVectorIndexes, INDEX_METRICS, VECTOR_INDEX_METHODS } from './indexes.ts'

const index = t.object({
  name: t.string(),
  schema: t.string(),
  table: t.string(),
  method: t.oneOf(VECTOR_INDEX_METHODS),
  definition: t.string(),
})

const embedding = t.object({
  id: t.uuid(),
  schema: t.string(),
  table: t.string(),
  columns: t.array(t.string()),
  vector_column: t.string(),
  status: t.oneOf(['filling', 'following']),
  embedded: t.integer({ description: 'vectors made so far' }),
  refused: t.integer({ description: 'texts the provider did not want' }),
  waiting: t.integer({ description: 'parts of the work in the queue' }),
  last_error: t.nullable(t.string()),
  last_embedded_at: t.nullable(t.time()),
  created_at: t.time(),
})

type Deps = {
  db: Db & Pick<Pool, 'openConnection'>
  schema: SchemaCache
  log: ChangeLog
  queue: Queue
  outgoing: Outgoing
  config: AiConfig
  observe: Observe
}

type Vectors = Feature & {
  /** Embeds a search text; undefined without a provider. */
  embed: ReturnType<typeof cachedEmbed> | undefined
}

export function createVector({ db, schema, log, queue, outgoing, config, observe }: Deps): Vectors {
  const provider = createEmbeddingProvider({ config, outgoing, observe })
  const concurrent = new ConcurrentIndexes(db)
  const indexes = createVectorIndexes({ db, schema, indexes: concurrent })
  const embeddings = createEmbeddings({ db, schema, queue, hasProvider: provider !== undefined })
  const routes = [
    route('GET /api/admin/vector/indexes', {
      summary: 'Indexes over vectors',
      leastRole: 'viewer',
      auth: 'admin',
      answers: { 200: t.object({ indexes: t.array(index) }) },
      handle: async () => jsonText(200, await indexes.all()),
    }),
    route('POST /api/admin/vector/indexes', {
      summary: 'Build an index over a vector column, while writers go on, and wait for it',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'vector_index.create',
      body: t.object({
        table: t.string(),
        column: t.string(),
        method: t.oneOf(VECTOR_INDEX_METHODS, { refusal: 'method must be hnsw or ivfflat' }),
        metric: t.oneOf(INDEX_METRICS, { refusal: 'metric must be cosine, l2 or inner_product' }),
        schema: t.optional(t.string()),
        index_name: t.optional(t.string()),
        lists: t.optional(t.integer({ minimum: 1, maximum: 32_768, description: 'of ivfflat' })),
      }),
      answers: {
        201: t.object({
          index_name: t.string(),
          method: t.oneOf(VECTOR_INDEX_METHODS),
          metric: t.oneOf(INDEX_METRICS),
          table: t.string(),
          column: t.string(),
        }),
      },
      handle: async (call) => json(201, await indexes.build(call.body, call)),
    }),
    route('DELETE /api/admin/vector/indexes/{name}', {
      summary: 'Drop an index over vectors',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'vector_index.delete',
      params: { name: t.string() },
      answers: { 204: null },
      handle: (call) => noContentAfter(indexes.drop(call.params.name, call)),
    }),
    route('GET /api/admin/vector/embed', {
      summary: 'Vector columns that are kept filled, oldest first, and how far they are',
      leastRole: 'viewer',
      auth: 'admin',
      answers: { 200: t.object({ embeddings: t.array(embedding) }) },
      handle: async () => jsonText(200, await embeddings.all()),
    }),
    route('POST /api/admin/vector/embed', {
      summary: 'Fill a vector column from text columns, and keep it filled as rows change',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'embedding.create',
      body: t.object({
        table: t.string(),
        columns: t.array(t.string(), { maxItems: 50 }),
        vector_column: t.string(),
        schema: t.optional(t.string()),
      }),
      answers: { 202: embedding },
      handle: async (call) => jsonText(202, await embeddings.add(call.body, call)),
    }),
    route('DELETE /api/admin/vector/embed/{id}', {
      summary: 'Keep it filled no longer; vectors stay',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'embedding.delete',
      params: { id: t.id('embedding') },
      answers: { 204: null },
      handle: (call) => noContentAfter(embeddings.remove(call.params.id, call)),
    }),
  ]
  return {
    routes,
    embed: provider && cachedEmbed(provider),
    start: () => startEmbedWorker({ db, schema, log, queue, provider }),
    stop: () => concurrent.stop(),
  }
}
