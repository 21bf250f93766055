import type { Appender, ChangeAction } from '../../../db/changes/append.ts'
import { equals } from '../../../db/rows/keys.ts'
import { logAll, MADE } from '../../../db/rows/logged.ts'
import type { Place } from '../../../db/rows/place.ts'
import { assignments, definitions, deleteRows, INPUT, insertRows, updateRows } from '../../../db/rows/write.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import { COMMA, EMPTY, Ident, join, ROW, type Slot, type Sql, sql } from '../../../db/sql.ts'
import { SEPARATOR } from '../write/upsert.ts'
import type { BatchMethod } from './parse.ts'

/** Where the values of a run stand: an array per column of the primary key, the bodies as one JSON array, their number. */
export type RunSlots = { readonly keys: readonly Slot[]; readonly bodies: Slot; readonly count: Slot }

/** What the operations of a run have in common. */
export type RunKind = { readonly method: BatchMethod; readonly columns: readonly Column[] }

/** Locks rows in the order of their keys. */
export function buildLocks(place: Place, keys: readonly Slot[], isForDelete: boolean): Sql {
  const { table } = place
  const columns = table.primaryKey.map(({ ident }) => sql`${ROW}.${ident}`)
  const strength = isForDelete ? sql`update` : sql`no key update`
  return sql`with ${keyedInput(place, keys)}
    select pg_catalog.count(*) from (
      select from ${INPUT} join ${table.ident} as ${ROW} on ${keysMatch(place)}
      order by ${join(columns, COMMA)} for ${strength} of ${ROW}
    ) as svc_locked`
}

/** Answers what resultsOf() reads, or fails with svc.require_rows. */
export function buildRun(place: Place, { method, columns }: RunKind, slots: RunSlots, log: Appender): Sql {
  switch (method) {
    case 'update':
      return updateRun(place, columns, slots, log)
    case 'delete':
      return deleteRun(place, slots, log)
    default:
      return createRun(place, columns, slots, log)
  }
}

function createRun(place: Place, columns: readonly Column[], { bodies, count }: RunSlots, log: Appender): Sql {
  const input = sql`pg_catalog.json_to_recordset(${bodies}::pg_catalog.json) as ${INPUT}(${definitions(columns)})`
  // PostgreSQL inserts, and returns, in the order of the input.
  return sql`with ${MADE} as (${insertRows(place, { columns, input }, log)})
    ${answer(place, 'create', count, log, EMPTY)}`
}

function updateRun(place: Place, columns: readonly Column[], { keys, bodies, count }: RunSlots, log: Appender): Sql {
  const changes = {
    set: assignments(place.schema, columns),
    from: [sql`${INPUT}`],
    where: sql` where ${keysMatch(place)}`,
  }
  return sql`with ${keyedInput(place, keys, { bodies, columns })}, ${updateRows(place, { ...changes, isNumbered: true }, log)}
    ${answer(place, 'update', count, log, BY_NUMBER)}`
}

const deleteRun = (place: Place, { keys, count }: RunSlots, log: Appender): Sql =>
  sql`with ${keyedInput(place, keys)}, ${deleteRows(place, { where: sql` where ${keysMatch(place)}`, isNumbered: true }, log)}
    ${answer(place, 'delete', count, log, BY_NUMBER)}`

const inputKey = (i: number): Ident => new Ident(`svc_k${i}`)

/** Values, keys and position of each operation, as rows. */
function keyedInput(
  { table }: Place,
  keySlots: readonly Slot[],
  given?: { bodies: Slot; columns: readonly Column[] },
): Sql {
  const keys = table.primaryKey.map(({ castType }, i) => sql`pg_catalog.unnest(${keySlots[i] ?? ''}::${castType}[])`)
  const columns = given?.columns ?? []
  const values = given
    ? [sql`pg_catalog.json_to_recordset(${given.bodies}::pg_catalog.json) as (${definitions(columns)})`]
    : []
  const names = [...columns.map(({ ident }) => ident), ...keys.map((_, i) => inputKey(i))]
  return sql`${INPUT} as materialized (
      select * from rows from (${join([...values, ...keys], COMMA)}) with ordinality
        as svc_rows(${join(
          names.map((name) => sql`${name}`),
          COMMA,
        )}, svc_n)
    )`
}

const keysMatch = ({ table }: Place): Sql =>
  join(
    table.primaryKey.map((column, i) => equals(column, ROW, sql`${INPUT}.${inputKey(i)}`)),
    sql` and `,
  )

const BY_NUMBER = sql` order by ${MADE}.svc_n`

/** The count is checked inside the statement: a missing row must roll back what the others did. */
function answer(place: Place, method: ChangeAction, count: Slot, log: Appender, order: Sql): Sql {
  const texts =
    method === 'delete' ? sql`''` : sql`pg_catalog.string_agg(${MADE}.svc_json::text, ${SEPARATOR}::text${order})`
  return sql`select ${texts}, ${logAll(place, log, method, order)}
    from ${MADE} having svc.require_rows(pg_catalog.count(*), ${count}::int8)`
}
