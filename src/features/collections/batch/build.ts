import type { Appender, ChangeAction } from '../../../db/changes/append.ts'
import { equals } from '../../../db/rows/keys.ts'
import type { Place } from '../../../db/rows/place.ts'
import {
  assignments,
  BEFORE,
  definitions,
  INPUT,
  image,
  insert,
  isSeenWhole,
  logAll,
  MADE,
  oldImage,
  outcome,
  sameKey,
} from '../../../db/rows/write.ts'
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
  return sql`with ${MADE} as (${insert(place, columns, input)} returning ${outcome(place)})
    ${answer(place, 'create', count, log, EMPTY)}`
}

function updateRun(place: Place, columns: readonly Column[], slots: RunSlots, log: Appender): Sql {
  const { schema, table } = place
  const { keys, bodies, count } = slots
  return sql`with ${keyedInput(place, keys, { bodies, columns })}, ${before(place, log, sql`no key update`)}, ${MADE} as (
      update ${table.ident} as ${ROW} set ${assignments(schema, columns)} from ${INPUT}, ${BEFORE}
      where ${sameKey(table)} and ${BEFORE}.svc_n = ${INPUT}.svc_n
      returning ${INPUT}.svc_n, ${outcome(place)}, ${BEFORE}.svc_old
    )
    ${answer(place, 'update', count, log, BY_NUMBER)}`
}

function deleteRun(place: Place, { keys, count }: RunSlots, log: Appender): Sql {
  const { table } = place
  const made = isSeenWhole(place)
    ? sql`${MADE} as (
      delete from ${table.ident} as ${ROW} using ${INPUT} where ${keysMatch(place)}
      returning ${INPUT}.svc_n, ${outcome(place)}, ${image(place)} as svc_old
    )`
    : sql`${before(place, log, sql`update`)}, ${MADE} as (
      delete from ${table.ident} as ${ROW} using ${BEFORE} where ${sameKey(table)}
      returning ${BEFORE}.svc_n, ${outcome(place)}, ${BEFORE}.svc_old
    )`
  return sql`with ${keyedInput(place, keys)}, ${made}
    ${answer(place, 'delete', count, log, BY_NUMBER)}`
}

const before = (place: Place, log: Appender, strength: Sql): Sql => sql`${BEFORE} as (
      select ${INPUT}.svc_n, ${oldImage(place, log)} from ${INPUT} join ${place.table.ident} as ${ROW} on ${keysMatch(place)}
      for ${strength} of ${ROW}
    )`

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
