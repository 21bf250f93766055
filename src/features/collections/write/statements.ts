import type { Appender } from '../../../db/changes/append.ts'
import type { SqlCache } from '../../../db/rows/sql-cache.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import { Slots, type Sql } from '../../../db/sql.ts'
import { buildCreate, buildDelete, buildUpdate } from './build.ts'

/** One write of a request: the columns it names, its JSON text, and the appender that logs it. */
export type RowInput = { readonly columns: readonly Column[]; readonly body: string; readonly log: Appender }

/** Statements are built once per set of columns; the body, the key and the identity are values. */
export function createStatement(sqlCache: SqlCache, target: TableView, { columns, body, log }: RowInput): Sql {
  const slots = new Slots()
  const write = { columns, body: slots.put(body), log: log.within(slots) }
  return sqlCache.get(target, `create ${shapeOf(columns)}`, () => buildCreate(target, write)).fill(slots.values)
}

/** `key` holds one text per primary-key column. */
export function updateStatement(
  sqlCache: SqlCache,
  target: TableView,
  key: readonly string[],
  { columns, body, log }: RowInput,
): Sql {
  const slots = new Slots()
  const keys = key.map((part) => slots.put(part))
  const write = { columns, body: slots.put(body), log: log.within(slots) }
  return sqlCache.get(target, `update ${shapeOf(columns)}`, () => buildUpdate(target, keys, write)).fill(slots.values)
}

export function deleteStatement(sqlCache: SqlCache, target: TableView, key: readonly string[], log: Appender): Sql {
  const slots = new Slots()
  const keys = key.map((part) => slots.put(part))
  const logged = log.within(slots)
  return sqlCache.get(target, 'delete', () => buildDelete(target, keys, logged)).fill(slots.values)
}

/** Identifies a set of columns, which are always in table order. */
export const shapeOf = (columns: readonly Column[]): string => columns.map(({ position }) => position).join()
