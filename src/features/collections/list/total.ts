import type { Db } from '../../../db/db.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import type { PlannedFilter } from '../../../db/schema/filter/plan.ts'
import type { Table } from '../../../db/schema/snapshot.ts'
import type { Viewer } from '../../../db/schema/viewer.ts'
import { hidesRows } from '../../../db/search/candidates.ts'
import { Slots, type Sql, sql } from '../../../db/sql.ts'
import type { Call } from '../../../http/route.ts'
import { buildExplain } from './build.ts'
import type { Estimate, ListQuery } from './parse.ts'
import { planList } from './plan.ts'
import type { ListDeps } from './stages/stage.ts'

/** Below this many rows the total is counted. */
const WORTH_GUESSING = 1000

const wasAnalysed = (target: TableView): Sql =>
  sql`select reltuples >= 0 from pg_catalog.pg_class where oid = ${target.table.oid}::pg_catalog.oid`

/**
 * The number of rows that the planner expects, from EXPLAIN. Undefined if counting is cheap or the table was never
 * analysed. Statistics know no policies and no conditions of views, so an estimate would tell how frequent values are among
 * rows that the caller may not see: then the rows that it sees are counted.
 */
export async function estimateOf(
  db: Db,
  call: Call,
  target: TableView,
  parse: (slots: Slots) => ListQuery,
  listDeps: ListDeps,
): Promise<Estimate> {
  const slots = new Slots()
  const plan = planList(parse(slots), target, listDeps)
  if ([target.table, ...tablesIn(plan.filter)].some((table) => mayHide(table, target.viewer))) return 'bounded'
  const options = { kind: 'read', signal: call.cancelSignal } as const
  const explain = buildExplain(plan).fill(slots.values)
  const [analysed, explained] = await db.fly(call.who, [wasAnalysed(target), explain], options)
  const [{ Plan: root } = { Plan: undefined }] = JSON.parse(explained ?? '[]') as { Plan?: { 'Plan Rows': number } }[]
  const rows = root?.['Plan Rows'] ?? 0
  return analysed === 't' && rows >= WORTH_GUESSING ? rows : undefined
}

const mayHide = (table: Table, { role }: Viewer): boolean =>
  hidesRows(table, role) || (table.kind === 'view' && role !== 'none')

/** The tables that the paths of a filter lead to. */
function tablesIn(filter: PlannedFilter | undefined): Table[] {
  if (!filter) return []
  return 'steps' in filter ? filter.steps.map(({ target }) => target) : filter.parts.flatMap(tablesIn)
}
