import { badRequest } from '../../../core/errors.ts'
import { SecretBox } from '../../../core/secret-box.ts'
import type { Place } from '../../../db/rows/place.ts'
import { keyFor } from '../../../db/schema/viewer.ts'
import type { Slot, Slots } from '../../../db/sql.ts'
import { type ListQuery, parseList, roundedUp } from './parse.ts'
import { planOrder } from './plan.ts'

type Query = Readonly<Record<string, string>>

export type CursorQuery = ListQuery & {
  /** The sort keys of the last row of the page before, null where it has NULL; undefined = the first page. */
  readonly after: readonly (Slot | null)[] | undefined
  /** No row beyond this one is wanted; see Window. */
  readonly reach: number
}

/** What orders rows by something else than their columns, or pages by number. */
const FOREIGN = ['page', 'search', 'nearest', 'semantic_query', 'semantic', 'aggregate', 'group']
const FORM = /^[\w-]+\.[\w-]+\.[\w-]+$/
/** A cursor travels in a URL. */
const MAX_KEYS = 4000

/** Marks of a place in a sorted list, for the client opaque: the keys of its last row, sealed. */
export class Cursors {
  readonly #box: SecretBox

  /** `key` is the same in all processes of the service. */
  constructor(key: Buffer) {
    this.#box = new SecretBox(key)
  }

  /** `keys` is JSON text of texts and nulls. */
  seal(keys: string, query: ListQuery, place: Place): string {
    if (keys.length > MAX_KEYS) throw badRequest('a sort value is too long for a cursor')
    return this.#box.seal(keys, contextOf(query, place))
  }

  parse(query: Query, slots: Slots, place: Place, estimate?: number): CursorQuery {
    const combined = FOREIGN.find((name) => (query[name] ?? '') !== '')
    if (combined !== undefined) throw badRequest(`cursor cannot be combined with "${combined}"`)
    if (keyFor(place.table, place.viewer.role).length === 0) throw badRequest('cursor requires a primary key')
    const total = query['total'] ?? 'none'
    const asked = parseList({ ...query, total }, slots, place, estimate)
    const keys = query['cursor'] ? this.#open(query['cursor'], asked, place) : undefined
    return {
      ...asked,
      after: keys?.map((key) => (key === null ? null : slots.put(key))),
      // One more than the page tells whether another follows.
      reach: roundedUp(Number(slots.values[asked.window.perPage.index]) + 1),
    }
  }

  #open(cursor: string, asked: ListQuery, place: Place): (string | null)[] {
    if (!FORM.test(cursor)) throw badRequest('invalid cursor')
    try {
      return JSON.parse(this.#box.open(cursor, contextOf(asked, place))) as (string | null)[]
    } catch {
      throw badRequest('invalid cursor')
    }
  }
}

/** A cursor belongs to a table and an order, the key at its end included. */
function contextOf({ sort }: ListQuery, place: Place): string {
  const order = planOrder(sort, place).map(({ column, descending }) => [column.name, column.type, descending])
  return JSON.stringify(['cursor', place.table.schema, place.table.name, order])
}
