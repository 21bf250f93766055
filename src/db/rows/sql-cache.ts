import { LRUCache } from 'lru-cache'
import { viewerKey } from '../schema/viewer.ts'
import type { Sql } from '../sql.ts'
import type { TableView } from './table-view.ts'

/** Characters of text and shape. The longest are not cached, because few clients share them. */
const MAX_TOTAL = 8 * 1024 * 1024
const MAX_EACH = 64 * 1024

/**
 * Statements by shape. Requests of one shape differ in their values alone, so their statement is built once for a table,
 * a role and a shape, and then filled. Tables and functions belong to one snapshot, so a new snapshot starts empty.
 */
export class SqlCache {
  readonly #byShape: LRUCache<string, Sql>
  readonly #numbers = new WeakMap<object, number>()
  #lastNumber = 0

  constructor(maxTotal: number = MAX_TOTAL) {
    this.#byShape = new LRUCache({ maxSize: maxTotal, maxEntrySize: Math.min(MAX_EACH, maxTotal) })
  }

  get({ table, viewer }: TableView, shape: string, make: () => Sql): Sql {
    return this.about(table, `${viewerKey(viewer)} ${shape}`, make)
  }

  /** `subject` is a table or function of a snapshot; `shape` includes the viewer where that matters. */
  about(subject: object, shape: string, make: () => Sql): Sql {
    const key = `${this.#numberOf(subject)} ${shape}`
    const cached = this.#byShape.get(key)
    if (cached) return cached
    const made = make().textAlone()
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
