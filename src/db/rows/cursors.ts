import { badRequest } from '../../core/errors.ts'
import { SecretBox } from '../../core/secret-box.ts'
import { keyFor } from '../schema/viewer.ts'
import { type Ident, join, type Sql, sql } from '../sql.ts'
import type { Order } from './order.ts'
import type { TableView } from './table-view.ts'

const FORM = /^[\w-]+\.[\w-]+\.[\w-]+$/
/** A cursor is part of a URL. */
const MAX_KEYS = 4000

/** Cursors of sorted lists, opaque for the client: the sealed sort keys of a row. */
export class Cursors {
  readonly #box: SecretBox

  /** `key` is the same in all processes of the service. */
  constructor(key: Buffer) {
    this.#box = new SecretBox(key)
  }

  /** `keys` is the text of `sortKeys`. */
  seal(keys: string, target: TableView, order: readonly Order[]): string {
    if (keys.length > MAX_KEYS) throw badRequest('a sort value is too long for a cursor', 'invalid_sort')
    return this.#box.seal(keys, contextOf(target, order))
  }

  /** The sort keys of the cursor's row; null for NULL. */
  open(cursor: string, target: TableView, order: readonly Order[]): (string | null)[] {
    if (!FORM.test(cursor)) throw badRequest('invalid cursor', 'invalid_cursor')
    const context = contextOf(target, order)
    try {
      return JSON.parse(this.#box.open(cursor, context)) as (string | null)[]
    } catch {
      throw badRequest('invalid cursor', 'invalid_cursor')
    }
  }
}

/** Without a key the position of a row is ambiguous. */
export function requireKey({ table, viewer }: TableView): void {
  if (keyFor(table, viewer.role).length === 0) throw badRequest('cursor requires a primary key', 'invalid_cursor')
}

/** The content of a cursor: a JSON array of texts and nulls. */
export const sortKeys = (order: readonly Order[], row: Ident): Sql =>
  sql`pg_catalog.json_build_array(${join(order.map(({ column }) => sql`${row}.${column.ident}::text`))})`

/** A cursor is valid for one table and one order, including the key. */
function contextOf({ table }: TableView, order: readonly Order[]): string {
  const keys = order.map(({ column, descending }) => [column.name, column.type, descending])
  return JSON.stringify(['cursor', table.schema, table.name, keys])
}
