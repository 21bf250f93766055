import type { Appender } from '../../../db/changes/append.ts'
import { keyIs } from '../../../db/rows/keys.ts'
import type { Place } from '../../../db/rows/place.ts'
import {
  assignments,
  BEFORE,
  definitions,
  INPUT,
  image,
  insert,
  isSeenWhole,
  logOne,
  MADE,
  oldImage,
  outcome,
  sameKey,
} from '../../../db/rows/write.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import { ROW, type Slot, type Sql, sql } from '../../../db/sql.ts'

/** One write: which columns, the JSON text of the client that holds their values, and who logs it. */
export type Write = { readonly columns: readonly Column[]; readonly body: Slot; readonly log: Appender }

/** Answers the new record as JSON text, or no row. */
export function buildCreate(place: Place, { columns, body, log }: Write): Sql {
  return sql`with ${MADE} as (${insert(place, columns, oneInput(columns, body))} returning ${outcome(place)})
    select ${MADE}.svc_json::text, ${logOne(place, log, 'create')} from ${MADE}`
}

/** Answers the whole updated record as JSON text, or no row. */
export function buildUpdate(place: Place, key: readonly Slot[], { columns, body, log }: Write): Sql {
  const { table } = place
  return sql`with ${BEFORE} as (
      select ${oldImage(place, log)} from ${table.ident} as ${ROW} where ${keyIs(table, ROW, key)} for no key update
    ), ${MADE} as (
      update ${table.ident} as ${ROW} set ${assignments(place.schema, columns)} from ${oneInput(columns, body)}, ${BEFORE}
      where ${sameKey(table)} returning ${outcome(place)}, ${BEFORE}.svc_old
    )
    select ${MADE}.svc_json::text, ${logOne(place, log, 'update')} from ${MADE}`
}

/** Answers one row if there was one to delete. */
export function buildDelete(place: Place, key: readonly Slot[], log: Appender): Sql {
  const { table } = place
  const where = keyIs(table, ROW, key)
  const deletion = isSeenWhole(place)
    ? sql`${MADE} as (delete from ${table.ident} as ${ROW} where ${where} returning ${outcome(place)}, ${image(place)} as svc_old)`
    : sql`${BEFORE} as (select ${oldImage(place, log)} from ${table.ident} as ${ROW} where ${where} for update),
      ${MADE} as (
        delete from ${table.ident} as ${ROW} using ${BEFORE} where ${sameKey(table)} returning ${outcome(place)}, ${BEFORE}.svc_old
      )`
  return sql`with ${deletion} select 1, ${logOne(place, log, 'delete')} from ${MADE}`
}

/** json_to_record with our column definitions: what a value means is decided by PostgreSQL's types. */
const oneInput = (columns: readonly Column[], body: Slot): Sql =>
  sql`pg_catalog.json_to_record(${body}::pg_catalog.json) as ${INPUT}(${definitions(columns)})`
