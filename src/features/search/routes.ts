import * as t from '../../core/json-type.ts'
import type { Db } from '../../db/db.ts'
import type { Pool } from '../../db/pool/pool.ts'
import { ConcurrentIndexes } from '../../db/setup/concurrent-index.ts'
import type { Feature } from '../../http/feature.ts'
import { json, jsonText, noContentAfter, route } from '../../http/route.ts'
import { createTextIndexes, type IndexesDeps, TEXT_INDEX_METHODS } from './indexes.ts'

const index = t.object({
  name: t.string(),
  schema: t.string(),
  table: t.string(),
  method: t.oneOf(TEXT_INDEX_METHODS),
  definition: t.string(),
})
const build = t.object({
  name: t.string(),
  table: t.string(),
  phase: t.string({ description: "PostgreSQL's words" }),
  done: t.integer({ description: 'rows or blocks' }),
  total: t.integer(),
})

type Deps = Omit<IndexesDeps, 'indexes'> & { db: Db & Pick<Pool, 'openConnection'> }

export function createSearch(deps: Deps): Feature {
  const concurrent = new ConcurrentIndexes(deps.db)
  const indexes = createTextIndexes({ ...deps, indexes: concurrent })
  const routes = [
    route('GET /api/admin/search/indexes', {
      summary: 'Indexes that serve searches, and how far new ones are',
      leastRole: 'viewer',
      auth: 'admin',
      answers: { 200: t.object({ indexes: t.array(index), building: t.array(build) }) },
      handle: async () => jsonText(200, await indexes.all()),
    }),
    route('POST /api/admin/search/indexes', {
      summary: 'Build an index over the text columns of a table, while writers go on, and wait for it',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'search_index.create',
      body: t.object({
        table: t.string(),
        method: t.oneOf(TEXT_INDEX_METHODS, { refusal: 'method must be fulltext or trigram' }),
        schema: t.optional(t.string()),
        index_name: t.optional(t.string()),
      }),
      answers: { 201: t.object({ index_name: t.string(), method: t.oneOf(TEXT_INDEX_METHODS), table: t.string() }) },
      handle: async (call) => json(201, await indexes.build(call.body, call)),
    }),
    route('DELETE /api/admin/search/indexes/{name}', {
      summary: 'Drop an index that serves searches',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'search_index.delete',
      params: { name: t.string() },
      answers: { 204: null },
      handle: (call) => noContentAfter(indexes.drop(call.params.name, call)),
    }),
  ]
  return { routes, stop: () => concurrent.stop() }
}
