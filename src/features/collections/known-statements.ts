import { LRUCache } from 'lru-cache'
import type { Place } from '../../db/rows/place.ts'
import type { Table } from '../../db/schema/snapshot.ts'
import type { Sql } from '../../db/sql.ts'

/** Characters of text and shape together. The longest are made anew each time: few clients share them. */
const MAX_TOTAL = 8 * 1024 * 1024
const MAX_EACH = 64 * 1024

/**
 * Statements by what they look like. Requests of one shape differ in their values alone: their statement is made once
 * for a table, a role and a shape, and then only filled. Tables belong to one snapshot, so a new one starts anew.
 */
export class KnownStatements {
  readonly #byShape = new LRUCache<string, Sql>({ maxSize: MAX_TOTAL, maxEntrySize: MAX_EACH })
  readonly #numbers = new WeakMap<Table, number>()
  #lastNumber = 0

  get({ table, viewer }: Place, shape: string, make: () => Sql): Sql {
    const tables = viewer.allowedTables.length === 0 ? '' : JSON.stringify(viewer.allowedTables)
    const key = `${this.#numberOf(table)} ${viewer.role} ${tables} ${shape}`
    const known = this.#byShape.get(key)
    if (known) return known
    const made = make()
    this.#byShape.set(key, made, { size: key.length + made.text.length })
    return made
  }

  #numberOf(table: Table): number {
    const known = this.#numbers.get(table)
    if (known !== undefined) return known
    this.#numbers.set(table, ++this.#lastNumber)
    return this.#lastNumber
  }
}
