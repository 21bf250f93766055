import type { Appender } from '../../../db/changes/append.ts'
import { keyIs } from '../../../db/rows/keys.ts'
import { logOne, MADE } from '../../../db/rows/logged.ts'
import type { Place } from '../../../db/rows/place.ts'
import { assignments, definitions, deleteRows, INPUT, insertRows, updateRows } from '../../../db/rows/write.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import { ROW, type Slot, type Sql, sql } from '../../../db/sql.ts'

/** One write: which columns, the JSON text of the client that holds their values, and who logs it. */
export type Write = { readonly columns: readonly Column[]; readonly body: Slot; readonly log: Appender }

/** Answers the new record as JSON text, or no row. */
export function buildCreate(place: Place, { columns, body, log }: Write): Sql {
  return sql`with ${MADE} as (${insertRows(place, { columns, input: oneInput(columns, body) }, log)})
    select ${MADE}.svc_json::text, ${logOne(place, log, 'create')} from ${MADE}`
}

/** Answers the whole updated record as JSON text, or no row. */
export function buildUpdate(place: Place, key: readonly Slot[], { columns, body, log }: Write): Sql {
  const set = assignments(place.schema, columns)
  const where = sql` where ${keyIs(place.table, ROW, key)}`
  return sql`with ${updateRows(place, { set, from: [oneInput(columns, body)], where }, log)}
    select ${MADE}.svc_json::text, ${logOne(place, log, 'update')} from ${MADE}`
}

/** Answers one row if there was one to delete. */
export const buildDelete = (place: Place, key: readonly Slot[], log: Appender): Sql =>
  sql`with ${deleteRows(place, { where: sql` where ${keyIs(place.table, ROW, key)}` }, log)}
    select 1, ${logOne(place, log, 'delete')} from ${MADE}`

const oneInput = (columns: readonly Column[], body: Slot): Sql =>
  sql`pg_catalog.json_to_record(${body}::pg_catalog.json) as ${INPUT}(${definitions(columns)})`
