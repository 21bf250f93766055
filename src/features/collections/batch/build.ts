import type { Appender, ChangeAction } from '../../../db/changes/append.ts'
import { fitsAnswer } from '../../../db/rows/answer-size.ts'
import { logAll, MADE } from '../../../db/rows/change-logging.ts'
import { equals } from '../../../db/rows/keys.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { assignments, definitions, deleteRows, INPUT, insertRows, updateRows } from '../../../db/rows/write.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import { COMMA, EMPTY, Ident, join, ROW, type Slot, type Sql, sql } from '../../../db/sql.ts'
import { RECORD_SEPARATOR } from '../write/upsert.ts'
import type { BatchMethod } from './parse.ts'

/** Slots of a group: an array per primary-key column, the bodies as one JSON array, and their number. */
export type GroupSlots = { readonly keys: readonly Slot[]; readonly bodies: Slot; readonly count: Slot }

/** What the operations of a group have in common. */
export type GroupKind = { readonly method: BatchMethod; readonly columns: readonly Column[] }

export function buildLocks(target: TableView, keys: readonly Slot[], isForDelete: boolean): Sql {
  const { table } = target
  const columns = table.primaryKey.map(({ ident }) => sql`${ROW}.${ident}`)
  const strength = isForDelete ? sql`update` : sql`no key update`
  return sql`with ${keyedInput(target, keys)}
    select pg_catalog.count(*) from (
      select from ${INPUT} join ${table.ident} as ${ROW} on ${keysMatch(target)}
      order by ${join(columns, COMMA)} for ${strength} of ${ROW}
    ) as svc_locked`
}

/** Returns what resultsOf() reads, or fails in svc.require_rows. */
export function buildGroup(target: TableView, { method, columns }: GroupKind, slots: GroupSlots, log: Appender): Sql {
  switch (method) {
    case 'update':
      return updateGroup(target, columns, slots, log)
    case 'delete':
      return deleteGroup(target, slots, log)
    default:
      return createGroup(target, columns, slots, log)
  }
}

function createGroup(target: TableView, columns: readonly Column[], { bodies, count }: GroupSlots, log: Appender): Sql {
  const input = sql`pg_catalog.json_to_recordset(${bodies}::pg_catalog.json) as ${INPUT}(${definitions(columns)})`
  // PostgreSQL inserts, and returns, in the order of the input.
  return sql`with ${MADE} as (${insertRows(target, { columns, input }, log)})
    ${answer(target, 'create', count, log, EMPTY)}`
}

function updateGroup(
  target: TableView,
  columns: readonly Column[],
  { keys, bodies, count }: GroupSlots,
  log: Appender,
): Sql {
  const changes = {
    set: assignments(target.schema, columns),
    from: [sql`${INPUT}`],
    where: sql` where ${keysMatch(target)}`,
  }
  return sql`with ${keyedInput(target, keys, { bodies, columns })}, ${updateRows(target, { ...changes, isNumbered: true }, log)}
    ${answer(target, 'update', count, log, BY_NUMBER)}`
}

const deleteGroup = (target: TableView, { keys, count }: GroupSlots, log: Appender): Sql =>
  sql`with ${keyedInput(target, keys)}, ${deleteRows(target, { where: sql` where ${keysMatch(target)}`, isNumbered: true }, log)}
    ${answer(target, 'delete', count, log, BY_NUMBER)}`

const inputKey = (i: number): Ident => new Ident(`svc_k${i}`)

/** One row per operation: its values, its key and its number. */
function keyedInput(
  { table }: TableView,
  keySlots: readonly Slot[],
  given?: { bodies: Slot; columns: readonly Column[] },
): Sql {
  // The types read the keys as texts, because PostgreSQL has no arrays of arrays and unnests a row into its columns.
  const texts = table.primaryKey.map((_, i) => sql`pg_catalog.unnest(${keySlots[i] ?? ''}::text[])`)
  const keys = table.primaryKey.map(({ castType }, i) => sql`${inputKey(i)}::${castType} as ${inputKey(i)}`)
  const columns = given?.columns ?? []
  const values = given
    ? [sql`pg_catalog.json_to_recordset(${given.bodies}::pg_catalog.json) as (${definitions(columns)})`]
    : []
  const named = columns.map(({ ident }) => sql`${ident}`)
  const read = keys.map((_, i) => sql`${inputKey(i)}`)
  return sql`${INPUT} as materialized (
      select ${join([...named, ...keys], COMMA)}, svc_n
      from rows from (${join([...values, ...texts], COMMA)}) with ordinality as svc_rows(${join([...named, ...read], COMMA)}, svc_n)
    )`
}

const keysMatch = ({ table }: TableView): Sql =>
  join(
    table.primaryKey.map((column, i) => equals(column, ROW, sql`${INPUT}.${inputKey(i)}`)),
    sql` and `,
  )

const BY_NUMBER = sql` order by ${MADE}.svc_n`

/** The count is checked inside the statement, so that a missing row rolls back the whole group. */
function answer(target: TableView, method: ChangeAction, count: Slot, log: Appender, order: Sql): Sql {
  const texts =
    method === 'delete'
      ? sql`''`
      : sql`case when ${fitsAnswer(sql`${MADE}.svc_json`)}
          then pg_catalog.string_agg(${MADE}.svc_json::text, ${RECORD_SEPARATOR}::text${order}) end`
  return sql`select ${texts}, ${logAll(target, log, method, order)}
    from ${MADE} having svc.require_rows(pg_catalog.count(*), ${count}::int8)`
}
