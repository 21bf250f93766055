import { randomBytes } from 'node:crypto'
import type { TimeSlice } from '../../core/time-slice.ts'
import type { Relayed } from '../../db/db.ts'
import type { Cursors } from '../../db/rows/cursors.ts'
import { sortKeys } from '../../db/rows/cursors.ts'
import type { Order } from '../../db/rows/order.ts'
import type { TableView } from '../../db/rows/table-view.ts'
import { type Ident, type Sql, sql } from '../../db/sql.ts'

/**
 * The cursors in the response of one operation. PostgreSQL writes the keys of each row after a random word, so that no
 * value of a row can be mistaken for them; seal() then replaces them by cursors.
 */
export class CursorMarks {
  readonly #cursors: Cursors
  readonly #lists: { readonly target: TableView; readonly order: readonly Order[] }[] = []
  #word = ''

  constructor(cursors: Cursors) {
    this.#cursors = cursors
  }

  /** Marks the keys of a row in a list of this order. */
  mark(target: TableView, order: readonly Order[], row: Ident): Sql {
    this.#word ||= randomBytes(16).toString('hex')
    const mark = `${this.#word}${this.#lists.push({ target, order }) - 1}:`
    const keys = sql`pg_catalog.convert_to(${sortKeys(order, row)}::text, 'UTF8')`
    return sql`pg_catalog.concat(${mark}::text, pg_catalog.encode(${keys}, 'hex'))`
  }

  /** Replaces the marks by cursors. Yields, because nested lists can have a million rows. */
  async seal(list: Relayed, slice: TimeSlice): Promise<Relayed> {
    if (this.#word === '') return list
    const text = String(list)
    const pieces: string[] = []
    let done = 0
    for (let at = text.indexOf(this.#word); at !== -1; at = text.indexOf(this.#word, done)) {
      const end = text.indexOf('"', at)
      const [list = '', keys = ''] = text.slice(at + this.#word.length, end).split(':')
      pieces.push(text.slice(done, at), this.#sealed(Number(list), keys))
      done = end
      await slice.yieldIfOver()
    }
    return pieces.length > 0 ? pieces.join('') + text.slice(done) : text
  }

  #sealed(list: number, keys: string): string {
    const { target, order } = this.#lists[list] ?? {}
    if (!target || !order) throw new TypeError(`no list ${list}`)
    return this.#cursors.seal(Buffer.from(keys, 'hex').toString(), target, order)
  }
}
