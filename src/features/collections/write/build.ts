import type { Appender } from '../../../db/changes/append.ts'
import { logOne, MADE } from '../../../db/rows/change-logging.ts'
import { keyIs } from '../../../db/rows/keys.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { assignments, definitions, deleteRows, INPUT, insertRows, updateRows } from '../../../db/rows/write.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import { ROW, type Slot, type Sql, sql } from '../../../db/sql.ts'

/** One write: its columns, the slot of the client's JSON text with their values, and the appender that logs it. */
export type Write = { readonly columns: readonly Column[]; readonly body: Slot; readonly log: Appender }

/** Returns the new record as JSON text, or no row. */
export function buildCreate(target: TableView, { columns, body, log }: Write): Sql {
  return sql`with ${MADE} as (${insertRows(target, { columns, input: oneInput(columns, body) }, log)})
    select ${MADE}.svc_json::text, ${logOne(target, log, 'create')} from ${MADE}`
}

/** Returns the whole updated record as JSON text, or no row. */
export function buildUpdate(target: TableView, key: readonly Slot[], { columns, body, log }: Write): Sql {
  const set = assignments(target.schema, columns)
  const where = sql` where ${keyIs(target.table, ROW, key)}`
  return sql`with ${updateRows(target, { set, from: [oneInput(columns, body)], where }, log)}
    select ${MADE}.svc_json::text, ${logOne(target, log, 'update')} from ${MADE}`
}

/** Returns one row if a row was deleted. */
export const buildDelete = (target: TableView, key: readonly Slot[], log: Appender): Sql =>
  sql`with ${deleteRows(target, { where: sql` where ${keyIs(target.table, ROW, key)}` }, log)}
    select 1, ${logOne(target, log, 'delete')} from ${MADE}`

const oneInput = (columns: readonly Column[], body: Slot): Sql =>
  sql`pg_catalog.json_to_record(${body}::pg_catalog.json) as ${INPUT}(${definitions(columns)})`
