import { AppError } from '../../../core/errors.ts'
import type { Appender } from '../../../db/changes/append.ts'
import { isRowMissing } from '../../../db/pg-errors.ts'
import { fitsAnswer } from '../../../db/rows/answer-size.ts'
import { IS_NEW, logOne, logUpserts, MADE } from '../../../db/rows/change-logging.ts'
import { equals } from '../../../db/rows/keys.ts'
import type { SqlCache } from '../../../db/rows/sql-cache.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { type Conflict, isHiddenConflict } from '../../../db/rows/upsert.ts'
import { definitions, INPUT, inputValue, insertRows } from '../../../db/rows/write.ts'
import { rowJson } from '../../../db/schema/row-json.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import { AND, Ident, join, ROW, type Slot, Slots, type Sql, sql } from '../../../db/sql.ts'
import { shapeOf } from './statements.ts'

/** Rows of the same columns, as the texts of their JSON objects. */
export type Upsert = {
  readonly columns: readonly Column[]
  readonly bodies: readonly string[]
  readonly conflict: Conflict
  readonly log: Appender
}

/** An upsert whose values are in slots: the bodies as one JSON array, and their number. */
type UpsertSlots = Omit<Upsert, 'bodies'> & { readonly bodies: Slot; readonly count: Slot }

/** Separates JSON texts, which cannot contain it (RFC 7464, section 2.2). */
export const RECORD_SEPARATOR = '\x1e'

/**
 * Each returned row is a status and JSON text, such as `201{"id":1}`. If conflicts are ignored, a second statement reads
 * the existing row, which only a new snapshot can see; such upserts are of one row. Statements are built once per set of
 * written columns and key columns.
 */
export function upsertStatements(sqlCache: SqlCache, target: TableView, upsert: Upsert): readonly [Sql, ...Sql[]] {
  const { columns, bodies, conflict, log } = upsert
  const slots = new Slots()
  const form: UpsertSlots = {
    columns,
    bodies: slots.put(`[${bodies.join(',')}]`),
    count: slots.put(bodies.length),
    conflict,
    log: log.within(slots),
  }
  const made = (kind: string, build: (target: TableView, form: UpsertSlots) => Sql): Sql => {
    const shape = `${kind} ${shapeOf(columns)} on ${shapeOf(conflict.on)}`
    return sqlCache.get(target, shape, () => build(target, form)).fill(slots.values)
  }
  if (conflict.merged.length > 0) return [made('upsert', buildMerge)]
  return [made('insert or ignore', buildIgnore), made('find ignored', buildFind)]
}

const insertion = (target: TableView, { columns, bodies, conflict, log }: UpsertSlots): Sql =>
  sql`${MADE} as (${insertRows(target, { columns, input: inputOf(columns, bodies), conflict }, log)})`

function buildMerge(target: TableView, form: UpsertSlots): Sql {
  const text = sql`pg_catalog.concat(case when ${IS_NEW} then '201' else '200' end, ${MADE}.svc_json)`
  return sql`with ${insertion(target, form)}
    select case when ${fitsAnswer(sql`${MADE}.svc_json`)} then pg_catalog.string_agg(${text}, ${RECORD_SEPARATOR}::text) end,
      ${logUpserts(target, form.log)}
    from ${MADE} having svc.require_rows(pg_catalog.count(*), ${form.count}::int8)`
}

const buildIgnore = (target: TableView, form: UpsertSlots): Sql =>
  sql`with ${insertion(target, form)}
    select (select pg_catalog.concat('201', ${MADE}.svc_json) from ${MADE}),
      pg_catalog.set_config('svc.inserted', (select pg_catalog.count(*)::text from ${MADE}), true),
      (select ${logOne(target, form.log, 'create')} from ${MADE})`

const FOUND = new Ident('svc_found')

function buildFind({ schema, table, viewer }: TableView, { columns, bodies, conflict }: UpsertSlots): Sql {
  const known = inputOf([...columns, ...conflict.on.filter((column) => !columns.includes(column))], bodies)
  const isSame = conflict.on.map((column) => equals(column, ROW, inputValue(schema, column)))
  return sql`with ${FOUND} as (
      select ${rowJson(schema, table, viewer.role, ROW)} as svc_json
      from ${known} join ${table.ident} as ${ROW} on ${join(isSame, AND)} limit 1
    )
    select (select pg_catalog.concat('200', ${FOUND}.svc_json) from ${FOUND}),
      svc.require_seen(exists (select from ${FOUND}) or pg_catalog.current_setting('svc.inserted') = '1')`
}

const inputOf = (columns: readonly Column[], bodies: Slot): Sql =>
  sql`pg_catalog.json_to_recordset(${bodies}::pg_catalog.json) as ${INPUT}(${definitions(columns)})`

/** The conflicting row is hidden by a policy, or a trigger suppressed the write. */
export const explainUpsert = (error: AppError): AppError =>
  isHiddenConflict(error) || isRowMissing(error)
    ? new AppError('insufficient_privilege', 'insufficient permissions', { cause: error.cause })
    : error

/** The result of the statements of one row. */
export function upsertResult(texts: readonly (string | null)[]): { status: number; text: string } {
  const text = texts.find((each) => each !== null) ?? ''
  return { status: Number(text.slice(0, 3)), text: text.slice(3) }
}
