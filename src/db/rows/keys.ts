import { operator } from '../schema/filter/operators.ts'
import type { Column, Table } from '../schema/snapshot.ts'
import { AND, type Ident, join, type Slot, type Sql, sql } from '../sql.ts'

/** `key` holds one text per primary-key column. */
export const keyIs = (table: Table, row: Ident, key: readonly (string | Slot)[]): Sql =>
  join(
    table.primaryKey.map((column, i) => equals(column, row, sql`${key[i] ?? ''}::${column.castType}`)),
    AND,
  )

export const equals = (column: Column, row: Ident, value: Sql): Sql =>
  sql`${row}.${column.ident} ${operator('=', column)} ${value}`
