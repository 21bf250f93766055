import { LRUCache } from 'lru-cache'
import type { Table } from '../../../db/schema/snapshot.ts'
import type { Sql } from '../../../db/sql.ts'
import type { Place } from '../place.ts'
import { buildList } from './build.ts'
import { type ListQuery, parseList } from './parse.ts'
import { planList } from './plan.ts'

type Listing = { readonly query: ListQuery; readonly statement: Sql }

const MAX_LISTINGS = 1000
const MAX_KEY_LENGTH = 500
const PARAMETERS = ['filter', 'sort', 'fields', 'expand', 'page', 'perPage', 'skipTotal']

/**
 * Clients ask for the same lists again and again, and what they mean only depends on the words, the role and the
 * snapshot: worked out once, the statement is kept. Tables belong to one snapshot, so a new one starts anew.
 */
export function createListings(): (query: Readonly<Record<string, string>>, place: Place) => Listing {
  const numbers = new WeakMap<Table, number>()
  let lastNumber = 0
  const numberOf = (table: Table): number => {
    const number = numbers.get(table) ?? ++lastNumber
    numbers.set(table, number)
    return number
  }
  const known = new LRUCache<string, Listing>({ max: MAX_LISTINGS })
  const make = (query: Readonly<Record<string, string>>, place: Place): Listing => {
    const parsed = parseList(query)
    return { query: parsed, statement: buildList(planList(parsed, place), place.schema) }
  }
  return (query, place) => {
    const { table, viewer } = place
    const words = PARAMETERS.map((name) => query[name] ?? '\0').join('\n')
    if (words.length > MAX_KEY_LENGTH || viewer.allowedTables.length > 0) return make(query, place)
    const key = `${numberOf(table)} ${viewer.role} ${words}`
    const found = known.get(key)
    if (found) return found
    const made = make(query, place)
    known.set(key, made)
    return made
  }
}
