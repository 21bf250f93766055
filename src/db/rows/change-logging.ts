import type { Appender, ChangeAction, ChangedRows } from '../changes/append.ts'
import { isLoggedOtherwise, rowJson } from '../schema/row-json.ts'
import type { Column, Table } from '../schema/snapshot.ts'
import { columnsFor, keyFor } from '../schema/viewer.ts'
import { EMPTY, Ident, join, ROW, type Sql, sql } from '../sql.ts'
import type { TableView } from './table-view.ts'

/** The rows that a statement inserted, updated or deleted, as its RETURNING lists them; see `returningList`. */
export const MADE = new Ident('svc_made')

/**
 * The RETURNING list: the record as the client may see it, and its key for the log. If the client does not see the whole
 * row, also the key as an object, by which the log reads the row again.
 */
export function returningList(target: TableView): Sql {
  const { schema, table, viewer } = target
  const shown = sql`${rowJson(schema, table, viewer.role, ROW)} as svc_json, ${keyText(keyFor(table, viewer.role))} as svc_key`
  return seesWholeRow(target) ? shown : sql`${shown}, ${keyObject(table)} as svc_pk`
}

/** The image of the row before the statement, read under the lock of the change. */
export const oldImage = (target: TableView, log: Appender): Sql =>
  seesWholeRow(target)
    ? safeJson(target.table, rowJson(target.schema, target.table, target.viewer.role, ROW))
    : log.wholeRow(target.table, keyObject(target.table))

/** The log keeps whole rows in its own form. If these are not what the writer is answered, the server reads the row again. */
export const seesWholeRow = ({ table, viewer }: TableView): boolean =>
  (columnsFor(table, viewer.role).length === table.columns.size && !isLoggedOtherwise(table)) ||
  keyFor(table, viewer.role).length === 0

const newImage = (target: TableView, log: Appender): Sql =>
  seesWholeRow(target) ? safeJson(target.table, sql`${MADE}.svc_json`) : log.wholeRow(target.table, sql`${MADE}.svc_pk`)

const keyObject = ({ primaryKey }: Table): Sql =>
  sql`pg_catalog.jsonb_build_object(${join(primaryKey.map(({ name, ident }) => sql`${name}::text, ${ROW}.${ident}`))})`

/** Types whose text equals their JSON and is short. */
const SHORT_KEYS = new Set(['int2', 'int4', 'int8', 'uuid', 'bool'])

/** The key by which the log is searched; see svc.key_text(). By default that of ROW. */
export function keyText(
  columns: readonly Column[],
  valueIn = ({ ident }: Column, _at: number): Sql => sql`${ROW}.${ident}`,
): Sql {
  const [first] = columns
  const [value, ...others] = columns.map(valueIn)
  if (!first || !value) return sql`null::text`
  if (others.length > 0) return sql`svc.key_text(pg_catalog.jsonb_build_array(${join([value, ...others])})::text)`
  if (SHORT_KEYS.has(first.baseType)) return sql`${value}::text`
  return sql`svc.key_text(pg_catalog.to_json(${value}) operator(pg_catalog.#>>) '{}')`
}

/** Types whose JSON is always valid jsonb. json itself may hold `\u0000`, and must be refused on write. */
const SAFE = new Set([
  ...['bool', 'bytea', 'uuid', 'text', 'varchar', 'bpchar', 'jsonb'],
  ...['int2', 'int4', 'int8', 'float4', 'float8', 'numeric'],
  ...['date', 'time', 'timetz', 'timestamp', 'timestamptz', 'interval'],
])
const isSafeColumn = ({ baseType, typeKind, isArray }: Column): boolean =>
  isArray ? SAFE.has(baseType.slice(1)) : typeKind === 'e' || SAFE.has(baseType)

export const isJsonbSafe = ({ columns }: Table): boolean => [...columns.values()].every(isSafeColumn)

/** An image that readers of the log can take as jsonb. */
const safeJson = (table: Table, image: Sql): Sql =>
  isJsonbSafe(table) ? image : sql`${image}::pg_catalog.jsonb::pg_catalog.json`

const NONE = sql`null::pg_catalog.json`
const NONE_OF_ANY = sql`null::pg_catalog.json[]`

/** Logs the one row that a statement changed; for its select list. */
export const logOne = (target: TableView, log: Appender, action: ChangeAction): Sql =>
  log.appendOne(target.table, {
    action,
    key: sql`${MADE}.svc_key`,
    record: action === 'delete' ? NONE : newImage(target, log),
    oldRecord: action === 'create' ? NONE : sql`${MADE}.svc_old`,
  })

/** As logOne, for all rows that a statement changed, in `order`. */
export const logAll = (target: TableView, log: Appender, action: ChangeAction, order: Sql): Sql =>
  log.append(target.table, rowsMade(target, log, action, order, EMPTY))

export const IS_NEW = sql`${MADE}.svc_old is null`

/** Logs new rows as created and the rest as updated. A statement changes a row once, so the order does not matter. */
export const logUpserts = (target: TableView, log: Appender): Sql =>
  sql`${log.append(target.table, rowsMade(target, log, 'create', EMPTY, sql` filter (where ${IS_NEW})`))}
    and ${log.append(target.table, rowsMade(target, log, 'update', EMPTY, sql` filter (where not ${IS_NEW})`))}`

/** The changed rows that pass `filter`, aggregated for the log. */
const rowsMade = (target: TableView, log: Appender, action: ChangeAction, order: Sql, filter: Sql): ChangedRows => ({
  action,
  keys: sql`pg_catalog.array_agg(${MADE}.svc_key${order})${filter}`,
  records: action === 'delete' ? NONE_OF_ANY : sql`pg_catalog.array_agg(${newImage(target, log)}${order})${filter}`,
  oldRecords: action === 'create' ? NONE_OF_ANY : sql`pg_catalog.array_agg(${MADE}.svc_old${order})${filter}`,
})
