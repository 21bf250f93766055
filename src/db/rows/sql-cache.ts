import { LRUCache } from 'lru-cache'
import type { Sql } from '../sql.ts'
import type { TableView } from './table-view.ts'

/** Characters of text and shape together. The longest are made anew each time: few clients share them. */
const MAX_TOTAL = 8 * 1024 * 1024
const MAX_EACH = 64 * 1024

/**
 * Statements by what they look like. Requests of one shape differ in their values alone: their statement is made once
 * for a table, a role and a shape, and then only filled. Tables and functions belong to one snapshot, so a new one
 * starts anew.
 */
export class SqlCache {
  readonly #byShape = new LRUCache<string, Sql>({ maxSize: MAX_TOTAL, maxEntrySize: MAX_EACH })
  readonly #numbers = new WeakMap<object, number>()
  #lastNumber = 0

  get({ table, viewer }: TableView, shape: string, make: () => Sql): Sql {
    const tables = viewer.allowedTables.length === 0 ? '' : JSON.stringify(viewer.allowedTables)
    return this.about(table, `${viewer.role} ${tables} ${shape}`, make)
  }

  /** `subject` is a table or function of a snapshot; `shape` says whose eyes see it, where that matters. */
  about(subject: object, shape: string, make: () => Sql): Sql {
    const key = `${this.#numberOf(subject)} ${shape}`
    const known = this.#byShape.get(key)
    if (known) return known
    const made = make()
    this.#byShape.set(key, made, { size: key.length + made.text.length })
    return made
  }

  #numberOf(subject: object): number {
    const known = this.#numbers.get(subject)
    if (known !== undefined) return known
    this.#numbers.set(subject, ++this.#lastNumber)
    return this.#lastNumber
  }
}
