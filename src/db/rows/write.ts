import type { Appender } from '../changes/append.ts'
import type { Column, Schema, Table } from '../schema/snapshot.ts'
import { fromGeoJson, isSpatial } from '../schema/spatial-conversion.ts'
import { EMPTY, Ident, join, ROW, type Sql, sql } from '../sql.ts'
import { MADE, oldImage, returningList, seesWholeRow } from './change-logging.ts'
import { equals } from './keys.ts'
import type { TableView } from './table-view.ts'
import { type Conflict, forgetReplaced, onConflictClause, replaced } from './upsert.ts'

// Aliases in our statements; columns are always qualified with one of them or with ROW, the written row.
export const INPUT = new Ident('svc_in')
const BEFORE = new Ident('svc_before')

export type Insertion = {
  readonly columns: readonly Column[]
  /** A FROM item called INPUT with a column for each of them. */
  readonly input: Sql
  readonly conflict?: Conflict | undefined
  /** Values of identity columns that are always generated are taken as they are given. */
  readonly keepsIdentity?: boolean
  /** More columns for RETURNING. */
  readonly also?: Sql
}

/** Inserts rows, and returns `returningList` and `svc_old`, the row before. */
export function insertRows(target: TableView, insertion: Insertion, log: Appender): Sql {
  const { conflict, also } = insertion
  const insert = insertInto(target, insertion, conflict && forgetReplaced(conflict))
  const instead = conflict ? onConflictClause(target, conflict, log) : EMPTY
  return sql`${insert}${instead}
    returning ${returningList(target)}, ${replaced(conflict)}${and(also)}`
}

/** A row that was deleted comes back, with the key that it had. */
export function insertAgain(target: TableView, insertion: Insertion): Sql {
  return sql`${insertInto(target, { ...insertion, keepsIdentity: true })}
    returning ${returningList(target)}, ${replaced(undefined)}`
}

/** An empty result with the columns of `insertRows`. `also` is undefined for who may read no column. */
export function noRows(target: TableView, also: Sql | undefined): Sql {
  const from = also ? sql` from ${target.table.ident} as ${ROW}` : EMPTY
  return sql`select ${returningList(target)}, ${replaced(undefined)}${and(also)}${from} where false`
}

/** `where`: a condition on each row of the input. */
export function insertInto(
  { schema, table }: TableView,
  { columns, input, keepsIdentity }: Insertion,
  where: Sql = EMPTY,
): Sql {
  const into = sql`insert into ${table.ident} as ${ROW}`
  // One row without values, because DEFAULT VALUES takes no condition.
  if (columns.length === 0) return where === EMPTY ? sql`${into} default values` : sql`${into} select${where}`
  const names = columns.map(({ ident }) => sql`${ident}`)
  const values = columns.map((column) => inputValue(schema, column))
  const overriding = keepsIdentity ? sql` overriding system value` : EMPTY
  return sql`${into} (${join(names)})${overriding} select ${join(values)} from ${input}${where}`
}

export type RowSelection = {
  /** The WHERE clause; empty = all rows. */
  readonly where: Sql
  /** INPUT is joined with the table, and its `svc_n` numbers the rows. */
  readonly isNumbered?: boolean
  readonly also?: Sql
}

/** Tables of a WITH: BEFORE, the old rows, and MADE, the new ones. `set` may refer to the FROM items `from`. */
export function updateRows(
  target: TableView,
  { set, from, ...selection }: RowSelection & { readonly set: Sql; readonly from: readonly Sql[] },
  log: Appender,
): Sql {
  const { table } = target
  const update = sql`update ${table.ident} as ${ROW} set ${set}`
  // Without a key the old row cannot be matched with the new one, so it is not logged.
  if (table.primaryKey.length === 0) {
    const tables = from.length > 0 ? sql` from ${join(from)}` : EMPTY
    return sql`${MADE} as (${update}${tables}${selection.where} returning ${returningList(target)}, ${replaced(undefined)}${and(selection.also)})`
  }
  const sameNumber = selection.isNumbered ? sql` and ${BEFORE}.svc_n = ${INPUT}.svc_n` : EMPTY
  return sql`${before(target, selection, sql`no key update`, log)}, ${MADE} as (
      ${update} from ${join([...from, sql`${BEFORE}`])}
      where ${sameKey(table)}${sameNumber}
      returning ${number(BEFORE, selection)}${returningList(target)}, ${BEFORE}.svc_old${and(selection.also)}
    )`
}

/** As updateRows, for deleted rows; without BEFORE if the caller sees whole rows. */
export function deleteRows(target: TableView, selection: RowSelection, log: Appender): Sql {
  const { table } = target
  if (seesWholeRow(target)) {
    return sql`${MADE} as (
      delete from ${table.ident} as ${ROW}${selection.isNumbered ? sql` using ${INPUT}` : EMPTY}${selection.where}
      returning ${number(INPUT, selection)}${returningList(target)}, ${oldImage(target, log)} as svc_old${and(selection.also)}
    )`
  }
  return sql`${before(target, selection, sql`update`, log)}, ${MADE} as (
      delete from ${table.ident} as ${ROW} using ${BEFORE} where ${sameKey(table)}
      returning ${number(BEFORE, selection)}${returningList(target)}, ${BEFORE}.svc_old${and(selection.also)}
    )`
}

function before(target: TableView, selection: RowSelection, lock: Sql, log: Appender): Sql {
  const { ident, primaryKey } = target.table
  const keys = primaryKey.map((column, i) => sql`${ROW}.${column.ident} as ${oldKey(i)}`)
  const from = selection.isNumbered ? sql`${INPUT}, ${ident} as ${ROW}` : sql`${ident} as ${ROW}`
  return sql`${BEFORE} as (
      select ${number(INPUT, selection)}${oldImage(target, log)} as svc_old, ${join(keys)}
      from ${from}${selection.where} for ${lock} of ${ROW}
    )`
}

const oldKey = (i: number): Ident => new Ident(`svc_k${i}`)

const sameKey = (table: Table): Sql =>
  join(
    table.primaryKey.map((column, i) => equals(column, ROW, sql`${BEFORE}.${oldKey(i)}`)),
    sql` and `,
  )

const number = (table: Ident, { isNumbered }: RowSelection): Sql => (isNumbered ? sql`${table}.svc_n, ` : EMPTY)
const and = (also: Sql | undefined): Sql => (also ? sql`, ${also}` : EMPTY)

/** The column definitions of INPUT for json_to_record; PostgreSQL's types parse the values. */
export const definitions = (columns: readonly Column[]): Sql =>
  join(
    columns.map(
      (column) =>
        sql`${column.ident} ${isSpatial(column) ? JSON_TYPE : isHstore(column) ? JSONB_TYPE : column.castType}`,
    ),
  )

const JSON_TYPE = new Ident('pg_catalog', 'json')
const JSONB_TYPE = new Ident('pg_catalog', 'jsonb')

/** In INPUT it is jsonb: an object, as PostgreSQL writes it to JSON, or its text. */
export const isHstore = ({ baseType, typeKind, readsBack }: Column): boolean =>
  baseType === 'hstore' && typeKind === 'b' && !readsBack

export const assignments = (schema: Schema, columns: readonly Column[]): Sql =>
  join(columns.map((column) => sql`${column.ident} = ${inputValue(schema, column)}`))

/** What INPUT has for the column, as a value of its type. */
export function inputValue(schema: Schema, column: Column): Sql {
  const value = sql`${INPUT}.${column.ident}`
  if (isSpatial(column)) return fromGeoJson(schema, column, sql`${value}::text`)
  if (!isHstore(column)) return value
  const { castType } = column
  return sql`(svc.readable(${value}, ${castType.quoted}::pg_catalog.regtype, 0) operator(pg_catalog.#>>) '{}')::${castType}`
}
