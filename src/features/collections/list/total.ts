import type { Db } from '../../../db/db.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { Slots, type Sql, sql } from '../../../db/sql.ts'
import type { Call } from '../../../http/route.ts'
import { buildExplain } from './build.ts'
import type { ListQuery } from './parse.ts'
import { planList } from './plan.ts'
import type { ListDeps } from './stages/stage.ts'

/** Fewer rows than this are counted. */
const WORTH_GUESSING = 1000

const wasAnalysed = (target: TableView): Sql =>
  sql`select reltuples >= 0 from pg_catalog.pg_class where oid = ${target.table.oid}::pg_catalog.oid`

/**
 * How many rows the planner expects of a list, read from its plan without running it. Undefined where counting is cheap,
 * or where the planner knows nothing of the table.
 */
export async function estimatedRows(
  db: Db,
  call: Call,
  target: TableView,
  parse: (slots: Slots) => ListQuery,
  listDeps: ListDeps,
): Promise<number | undefined> {
  const slots = new Slots()
  const asked = parse(slots)
  const explain = buildExplain(planList(asked, target, listDeps)).fill(slots.values)
  const options = { kind: 'read', signal: call.cancelSignal } as const
  const [analysed, plan] = await db.fly(call.who, [wasAnalysed(target), explain], options)
  const [{ Plan: root } = { Plan: undefined }] = JSON.parse(plan ?? '[]') as { Plan?: { 'Plan Rows': number } }[]
  const rows = root?.['Plan Rows'] ?? 0
  return analysed === 't' && rows >= WORTH_GUESSING ? rows : undefined
}
