import * as t from '../../core/json-type.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import { ConcurrentIndexes } from '../../db/setup/concurrent-index.ts'
import type { Pool } from '../../db/wire/pool.ts'
import type { Feature } from '../../http/feature.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { json, jsonText, noContent, route } from '../../http/route.ts'
import { type AiConfig, cachedQuestions, createProvider } from './embedding/embedder.ts'
import { createIndexes, METHODS, METRICS } from './indexes.ts'

const index = t.object({
  name: t.string(),
  schema: t.string(),
  table: t.string(),
  method: t.oneOf(METHODS),
  definition: t.string(),
})

type Deps = {
  db: Db & Pick<Pool, 'openConnection'>
  schema: SchemaCache
  outgoing: Outgoing
  config: AiConfig
  observe: Observe
}

type Vectors = Feature & {
  /** The vector of a question; undefined without a provider. */
  embed: ReturnType<typeof cachedQuestions> | undefined
}

export function createVector({ db, schema, outgoing, config, observe }: Deps): Vectors {
  const provider = createProvider({ config, outgoing, observe })
  const concurrent = new ConcurrentIndexes(db)
  const indexes = createIndexes({ db, schema, indexes: concurrent })
  const routes = [
    route('GET /api/admin/vector/indexes', {
      summary: 'Indexes over vectors',
      auth: 'admin',
      answers: { 200: t.object({ indexes: t.array(index) }) },
      handle: async () => jsonText(200, await indexes.all()),
    }),
    route('POST /api/admin/vector/indexes', {
      summary: 'Build an index over a vector column, while writers go on, and wait for it',
      auth: 'admin',
      audit: 'vector_index.create',
      body: t.object({
        table: t.string(),
        column: t.string(),
        method: t.oneOf(METHODS, { refusal: 'method must be hnsw or ivfflat' }),
        metric: t.oneOf(METRICS, { refusal: 'metric must be cosine, l2 or inner_product' }),
        schema: t.optional(t.string()),
        index_name: t.optional(t.string()),
        lists: t.optional(t.integer({ minimum: 1, maximum: 32_768, description: 'of ivfflat' })),
      }),
      answers: {
        201: t.object({
          index_name: t.string(),
          method: t.oneOf(METHODS),
          metric: t.oneOf(METRICS),
          table: t.string(),
          column: t.string(),
        }),
      },
      handle: async (call) => json(201, await indexes.build(call.body, call)),
    }),
    route('DELETE /api/admin/vector/indexes/{name}', {
      summary: 'Drop an index over vectors',
      auth: 'admin',
      audit: 'vector_index.delete',
      params: { name: t.string() },
      answers: { 204: null },
      handle: async (call) => {
        await indexes.drop(call.params.name, call)
        return noContent
      },
    }),
  ]
  return { routes, embed: provider && cachedQuestions(provider), stop: () => concurrent.stop() }
}
