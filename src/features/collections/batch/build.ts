import type { Appender, ChangeAction } from '../../../db/changes/append.ts'
import { equals } from '../../../db/rows/keys.ts'
import type { Place } from '../../../db/rows/place.ts'
import type { Conflict } from '../../../db/rows/upsert.ts'
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
  ROW,
  sameKey,
} from '../../../db/rows/write.ts'
import { mayDo } from '../../../db/schema/lookup.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import { COMMA, EMPTY, Ident, join, type Sql, sql } from '../../../db/sql.ts'
import { buildUpsert, SEPARATOR, upserted } from '../write/upsert.ts'
import type { Operation } from './parse.ts'

/** Operations that one statement can do; never empty. */
export type Run = readonly [Operation, ...Operation[]]

/** Joins neighbours that can share a statement without changing what the batch means. */
export function mergeRuns(operations: readonly Operation[]): Run[] {
  const runs: [Operation, ...Operation[]][] = []
  let seen = new Set<string>()
  for (const operation of operations) {
    const run = runs.at(-1)
    const key = operation.key.length > 0 ? JSON.stringify(operation.key) : ''
    if (run && canFollow(run[0], operation) && (key === '' || !seen.has(key))) run.push(operation)
    else {
      runs.push([operation])
      seen = new Set()
    }
    seen.add(key)
  }
  return runs
}

/** One statement changes a row once and looks keys up only at its start: keys stay as they are within a run. */
function canFollow(first: Operation, next: Operation): boolean {
  if (first.method !== next.method || !isSame(first.columns, next.columns)) return false
  if (first.conflict) return first.conflict.merged.length > 0 && isSameConflict(first.conflict, next.conflict)
  return first.method === 'create' || !first.columns.some((column) => column.isPrimaryKey)
}

const isSame = (some: readonly Column[], others: readonly Column[]): boolean =>
  some === others || (some.length === others.length && some.every((column, i) => column === others[i]))

const isSameConflict = (one: Conflict, other: Conflict | undefined): boolean =>
  other !== undefined && isSame(one.on, other.on) && isSame(one.merged, other.merged)

/** Whose each statement of a batch is; leaving alone what is there takes two. */
export const ownersOf = (runs: readonly Run[]): Run[] =>
  runs.flatMap((run) => (run[0].conflict?.merged.length === 0 ? [run, run] : [run]))

export const splitRun = (run: Run): Run[] => run.map((operation): Run => [operation])

/**
 * Locks what the batch is going to change in the order of the keys, so that two batches over the same rows wait for
 * each other instead of locking each other out. Undefined when there is nothing to gain, or no right to lock.
 */
export function buildLocks(place: Place, operations: readonly Operation[]): Sql | undefined {
  const { table, viewer } = place
  const changes = operations.filter(({ key }) => key.length > 0)
  if (changes.length < 2 || !mayDo(table, viewer.role, 'update')) return undefined
  const columns = table.primaryKey.map(({ ident }) => sql`${ROW}.${ident}`)
  const strength = changes.some(({ method }) => method === 'delete') ? sql`update` : sql`no key update`
  return sql`with ${keyedInput(place, changes, [])}
    select pg_catalog.count(*) from (
      select from ${INPUT} join ${table.ident} as ${ROW} on ${keysMatch(place)}
      order by ${join(columns, COMMA)} for ${strength} of ${ROW}
    ) as svc_locked`
}

/** Answers what resultsOf() reads, or fails with svc.require_rows. */
export function buildRun(place: Place, run: Run, log: Appender): readonly Sql[] {
  const [{ method, columns, conflict }] = run
  if (conflict) return buildUpsert(place, { columns, bodies: run.map(({ body }) => body), conflict, log })
  switch (method) {
    case 'update':
      return [updateRun(place, run, log)]
    case 'delete':
      return [deleteRun(place, run, log)]
    default:
      return [createRun(place, run, log)]
  }
}

function createRun(place: Place, run: Run, log: Appender): Sql {
  const { columns } = run[0]
  const input = sql`pg_catalog.json_to_recordset(${bodies(run)}::pg_catalog.json) as ${INPUT}(${definitions(columns)})`
  // PostgreSQL inserts, and returns, in the order of the input.
  return sql`with ${MADE} as (${insert(place, columns, input)} returning ${outcome(place)})
    ${answer(place, run, log, 'create', EMPTY)}`
}

function updateRun(place: Place, run: Run, log: Appender): Sql {
  const { schema, table } = place
  const { columns } = run[0]
  return sql`with ${keyedInput(place, run, columns)}, ${before(place, log, sql`no key update`)}, ${MADE} as (
      update ${table.ident} as ${ROW} set ${assignments(schema, columns)} from ${INPUT}, ${BEFORE}
      where ${sameKey(table)} and ${BEFORE}.svc_n = ${INPUT}.svc_n
      returning ${INPUT}.svc_n, ${outcome(place)}, ${BEFORE}.svc_old
    )
    ${answer(place, run, log, 'update', BY_NUMBER)}`
}

function deleteRun(place: Place, run: Run, log: Appender): Sql {
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
  return sql`with ${keyedInput(place, run, [])}, ${made}
    ${answer(place, run, log, 'delete', BY_NUMBER)}`
}

const before = (place: Place, log: Appender, strength: Sql): Sql => sql`${BEFORE} as (
      select ${INPUT}.svc_n, ${oldImage(place, log)} from ${INPUT} join ${place.table.ident} as ${ROW} on ${keysMatch(place)}
      for ${strength} of ${ROW}
    )`

const bodies = (run: readonly Operation[]): string => `[${run.map(({ body }) => body).join(',')}]`
const inputKey = (i: number): Ident => new Ident(`svc_k${i}`)

/** Values, keys and position of each operation, as rows. */
function keyedInput({ table }: Place, run: readonly Operation[], columns: readonly Column[]): Sql {
  const keys = table.primaryKey.map(
    ({ castType }, i) => sql`pg_catalog.unnest(${run.map(({ key }) => key[i] ?? '')}::${castType}[])`,
  )
  const values =
    columns.length > 0
      ? [sql`pg_catalog.json_to_recordset(${bodies(run)}::pg_catalog.json) as (${definitions(columns)})`]
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
function answer(place: Place, run: Run, log: Appender, method: ChangeAction, order: Sql): Sql {
  const texts =
    method === 'delete' ? sql`''` : sql`pg_catalog.string_agg(${MADE}.svc_json::text, ${SEPARATOR}::text${order})`
  return sql`select ${texts}, ${logAll(place, log, method, order)}
    from ${MADE} having svc.require_rows(pg_catalog.count(*), ${run.length}::int8)`
}

const STATUS = { create: 201, update: 200, delete: 204 }

/** The JSON texts of what the operations of a run answer; `texts` begins with those of its statements. */
export function resultsOf(run: Run, texts: readonly (string | null)[]): string {
  const [{ index: first, method }] = run
  if (method === 'upsert') return upsertResults(first, texts)
  const status = `,"status":${STATUS[method]}`
  if (method === 'delete') return run.map(({ index }) => `{"index":${index}${status}}`).join(',')
  const bodies = (texts[0] ?? '').split(SEPARATOR)
  let results = ''
  for (let i = 0; i < bodies.length; i++) {
    results += `${i === 0 ? '' : ','}{"index":${first + i}${status},"body":${bodies[i]}}`
  }
  return results
}

function upsertResults(first: number, [answer, found]: readonly (string | null)[]): string {
  const results = (answer ?? found ?? '').split(SEPARATOR).map((each, i) => {
    const { status, text } = upserted([each])
    return `{"index":${first + i},"status":${status},"body":${text}}`
  })
  return results.join(',')
}
