import { badRequest, notFound, serverBusy } from '../../../core/errors.ts'
import { userIdOf } from '../../../core/identity.ts'
import { KeyedLimit } from '../../../core/limits.ts'
import { type AsOf, explainAsOf } from '../../../db/history/as-of.ts'
import { SqlCache } from '../../../db/rows/sql-cache.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { type Call, jsonText, type Reply } from '../../../http/route.ts'
import { keyFromPath } from '../target/key.ts'
import { type ListReader, listAggregates, listRows, readStatement, SLOW } from './list.ts'

/** Lists of the past that run at a time, in all and per caller: each may read much of the log. */
const AT_ONCE = { total: 4, perKey: 2 }

/** What would read other tables, or an index of the rows of now. */
const INCOMPATIBLE = [
  ...['expand', 'search', 'fuzzy', 'facets', 'highlight', 'nearest', 'semantic_query', 'semantic'],
  ...['near', 'within', 'intersects', 'bbox'],
]

type Deps = ListReader & {
  asOf: AsOf
  at: <T>(call: Call, work: (target: TableView) => Promise<T>) => Promise<T>
}

/** Rows and lists as they were. Statements are built for one request, because they hold its moment. */
export function createPast(deps: Deps) {
  const { db, asOf, at } = deps
  const lane = new KeyedLimit(AT_ONCE)
  const then = ({ query }: Call): string => {
    const combined = INCOMPATIBLE.find((name) => (query[name] ?? '') !== '')
    if (combined !== undefined) throw badRequest(`as_of does not go with "${combined}"`)
    if (query['total'] === 'estimate') throw badRequest('as_of does not go with "total"')
    return query['as_of'] ?? ''
  }

  return {
    read: async (call: Call, target: TableView): Promise<Reply> => {
      const key = keyFromPath(call, target)
      const view = await asOf.view(call.who, target, then(call), key)
      const statement = readStatement(new SqlCache(), call.query, key, view)
      const text = await db.fly(call.who, statement, { ...SLOW, signal: call.cancelSignal, as: 'bytes' })
      if (text === null) throw notFound('record not found', 'record_not_found')
      return jsonText(200, text)
    },
    list: async (call: Call): Promise<Reply> => {
      const moment = then(call)
      const release = lane.tryAcquire(userIdOf(call.who) ?? call.ip)
      if (!release) throw serverBusy()
      try {
        return await at(call, async (target) => {
          const view = await asOf.view(call.who, target, moment)
          const reader = { ...deps, sqlCache: new SqlCache() }
          const list = call.query['aggregate'] === undefined ? listRows : listAggregates
          const text = await list(reader, call, view).catch((error: unknown) => {
            throw explainAsOf(error)
          })
          return jsonText(200, text)
        })
      } finally {
        release()
      }
    },
  }
}
