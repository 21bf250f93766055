import type { Appender } from '../changes/append.ts'
import { databaseMessage } from '../pg-errors.ts'
import type { Column, Table } from '../schema/snapshot.ts'
import { EMPTY, Ident, join, type Sql, sql } from '../sql.ts'
import { oldImage } from './change-logging.ts'
import type { TableView } from './table-view.ts'

/** What an insert does about an existing row. */
export type Conflict = {
  /** The columns of a unique key. */
  readonly on: readonly Column[]
  /** Columns updated from the new row; empty: the row stays unchanged and is not returned. */
  readonly merged: readonly Column[]
}

/** The columns of the unique key that has exactly these names, in any order. */
export function uniqueKeyOf(table: Table, names: readonly string[]): readonly Column[] | undefined {
  const key = table.uniqueKeys.find(
    ({ columns }) => columns.length === names.length && columns.every((name) => names.includes(name)),
  )
  return key?.columns.flatMap((name) => table.columns.get(name) ?? [])
}

/** A new row with nothing but its key still counts as an update of the existing row. PostgreSQL sets no generated column. */
export function mergedColumns(on: readonly Column[], written: readonly Column[]): readonly Column[] {
  const others = written.filter((column) => !on.includes(column) && !column.isGenerated)
  return others.length > 0 ? others : on.filter(({ isGenerated }) => !isGenerated)
}

const EXCLUDED = new Ident('excluded')

/** The ON CONFLICT clause; the RETURNING after it must contain `replaced`. */
export function onConflictClause(target: TableView, { on, merged }: Conflict, log: Appender): Sql {
  const clause = sql` on conflict (${names(on)}) do`
  if (merged.length === 0) return sql`${clause} nothing`
  const set = merged.map(({ ident }) => sql`${ident} = ${EXCLUDED}.${ident}`)
  return sql`${clause} update set ${join(set)} where svc.note_replaced(${oldImage(target, log)})`
}

/**
 * A condition on the rows to insert, which follows their FROM items. PostgreSQL takes one row after another, so what was
 * noted for a row whose update a trigger swallowed is gone before the next one.
 */
export const forgetReplaced = ({ merged }: Conflict): Sql =>
  merged.length === 0 ? EMPTY : sql` where pg_catalog.set_config('svc.replaced', '', true) operator(pg_catalog.=) ''`

/** The image of the existing row; null for a new one. */
export const replaced = (conflict: Conflict | undefined): Sql =>
  conflict && conflict.merged.length > 0 ? sql`svc.take_replaced() as svc_old` : sql`null::pg_catalog.json as svc_old`

/** Raised by svc.require_seen when retries of the flight did not help. */
export const isHiddenConflict = (error: unknown): boolean => databaseMessage(error) === 'conflicting row is not visible'

const names = (columns: readonly Column[]): Sql => join(columns.map(({ ident }) => sql`${ident}`))
