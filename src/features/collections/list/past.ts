import { badRequest, notFound, serverBusy } from '../../../core/errors.ts'
import { userIdOf } from '../../../core/identity.ts'
import { KeyedLimit } from '../../../core/limits.ts'
import { type AsOf, explainAsOf } from '../../../db/history/as-of.ts'
import { SqlCache } from '../../../db/rows/sql-cache.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import type { Table } from '../../../db/schema/snapshot.ts'
import { Slots } from '../../../db/sql.ts'
import { type Call, jsonText, type Reply } from '../../../http/route.ts'
import { keyFromPath } from '../target/key.ts'
import { parseAggregate } from './aggregate.ts'
import { type ListReader, listAggregates, listRows, readStatement, SLOW } from './list.ts'
import { parseList, parseRow } from './parse.ts'
import { planList, planRow } from './plan.ts'
import { expandedTables, filterTables } from './related.ts'

/** Lists of the past that run at a time, in all and per caller: each may read much of the log. */
const AT_ONCE = { total: 4, perKey: 2 }

/** What needs an index of the rows of now. */
const INCOMPATIBLE = ['nearest', 'semantic_query', 'semantic', 'near', 'within', 'intersects', 'bbox']

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

  /** What reads the changes of whole tables. */
  const inLane = async (call: Call, work: () => Promise<Reply>): Promise<Reply> => {
    const release = lane.tryAcquire(userIdOf(call.who) ?? call.ip)
    if (!release) throw serverBusy()
    try {
      return await work()
    } catch (error) {
      throw explainAsOf(error)
    } finally {
      release()
    }
  }

  async function readRow(call: Call, target: TableView, moment: string, related: readonly Table[]): Promise<Reply> {
    const key = keyFromPath(call, target)
    const view = await asOf.view(call.who, target, moment, { key, related })
    const statement = readStatement(new SqlCache(), call.query, key, view)
    const text = await db.fly(call.who, statement, { ...SLOW, signal: call.cancelSignal, as: 'bytes' })
    if (text === null) throw notFound('record not found', 'record_not_found')
    return jsonText(200, text)
  }

  return {
    read: async (call: Call, target: TableView): Promise<Reply> => {
      const moment = then(call)
      const related = expandedTables(planRow(parseRow(call.query), target).expand)
      const read = (): Promise<Reply> => readRow(call, target, moment, related)
      return related.length === 0 ? read() : inLane(call, read)
    },
    list: async (call: Call): Promise<Reply> => {
      const moment = then(call)
      return inLane(call, () =>
        at(call, async (target) => {
          const isList = call.query['aggregate'] === undefined
          const { cursor: _, ...query } = call.query
          const parsed = isList ? parseList(query, new Slots(), target) : parseAggregate(query, new Slots(), target)
          const { filter, shape } = planList(parsed, target, deps.listDeps)
          const related = [...filterTables(filter), ...expandedTables(shape.expand)]
          const view = await asOf.view(call.who, target, moment, { related })
          const reader = { ...deps, sqlCache: new SqlCache() }
          return jsonText(200, await (isList ? listRows : listAggregates)(reader, call, view))
        }),
      )
    },
  }
}
