import type { Db } from '../../../db/db.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { Slots, type Sql, sql } from '../../../db/sql.ts'
import type { Call } from '../../../http/route.ts'
import { buildExplain } from './build.ts'
import type { ListQuery } from './parse.ts'
import { planList } from './plan.ts'
import type { ListDeps } from './stages/stage.ts'

/** Below this many rows the total is counted. */
const WORTH_GUESSING = 1000

const wasAnalysed = (target: TableView): Sql =>
  sql`select reltuples >= 0 from pg_catalog.pg_class where oid = ${target.table.oid}::pg_catalog.oid`

/**
 * The number of rows that the planner expects, from EXPLAIN. Undefined if counting is cheap or the table was never
 * analysed.
 */
export async function estimatedRows(
  db: Db,
  call: Call,
  target: TableView,
  parse: (slots: Slots) => ListQuery,
  listDeps: ListDeps,
): Promise<number | undefined> {
  const slots = new Slots()
  const listQuery = parse(slots)
  const explain = buildExplain(planList(listQuery, target, listDeps)).fill(slots.values)
  const options = { kind: 'read', signal: call.cancelSignal } as const
  const [analysed, plan] = await db.fly(call.who, [wasAnalysed(target), explain], options)
  const [{ Plan: root } = { Plan: undefined }] = JSON.parse(plan ?? '[]') as { Plan?: { 'Plan Rows': number } }[]
  const rows = root?.['Plan Rows'] ?? 0
  return analysed === 't' && rows >= WORTH_GUESSING ? rows : undefined
}
