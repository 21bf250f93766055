import { badRequest } from '../../../core/errors.ts'

/** Tables by their keys in Schema.tables. A filter, null = every change, false = none of its changes. */
type Choice = string | null | false

/** What a subscriber asked to hear of. */
export type Wanted = {
  readonly tables: ReadonlyMap<string, Choice>
  /** Whether all the other tables that the caller may read are meant too. */
  readonly others: boolean
}

const MAX_TABLES = 100
const tooManyTables = () => badRequest(`too many tables: max ${MAX_TABLES}`)

/** Each name once, before anything is looked up. */
export function boundedNames(names: readonly string[]): ReadonlySet<string> {
  const set = new Set(names)
  if (set.size > MAX_TABLES) throw tooManyTables()
  return set
}

export const NOTHING: Wanted = { tables: new Map(), others: false }
export const isNothing = ({ tables, others }: Wanted): boolean => !others && tables.size === 0
export const EVERYTHING: Wanted = { tables: new Map(), others: true }

export function wantedTables(keys: Iterable<string>, filter: string | undefined): Wanted {
  return bounded({ tables: new Map([...keys].map((key) => [key, filter ?? null])), others: false })
}

/** Both; a table that is in both is wanted as the second says. */
export function plus(one: Wanted, two: Wanted): Wanted {
  if (two.others) return two
  return bounded({ tables: new Map([...one.tables, ...two.tables]), others: one.others })
}

export function minus({ tables, others }: Wanted, keys: readonly string[]): Wanted {
  const left = new Map(tables)
  for (const key of keys) {
    if (others) left.set(key, false)
    else left.delete(key)
  }
  return bounded({ tables: left, others })
}

/** Of the first, what the second does not have. */
export function newTo(more: Wanted, known: Wanted): Wanted {
  if (known.others) return NOTHING
  const isNew = ([key]: [string, Choice]): boolean => !wants(known, key)
  const excluded = more.others ? [...known.tables.keys()].map((key): [string, Choice] => [key, false]) : []
  return { tables: new Map([...[...more.tables].filter(isNew), ...excluded]), others: more.others }
}

/** Of the first, what the second names. */
export function intersect(wanted: Wanted, named: Wanted): Wanted {
  if (named.others) return wanted
  return { tables: new Map([...named.tables.keys()].map((key) => [key, choiceOf(wanted, key)])), others: false }
}

const choiceOf = ({ tables, others }: Wanted, key: string): Choice =>
  tables.get(key) ?? (tables.has(key) || others ? null : false)

export const wants = (wanted: Wanted, key: string): boolean => choiceOf(wanted, key) !== false
export const filterOn = (wanted: Wanted, key: string): string | undefined => choiceOf(wanted, key) || undefined
export const hasFilter = ({ tables }: Wanted): boolean =>
  [...tables.values()].some((choice) => typeof choice === 'string')

/** Of one connection, under all names together. */
export function requireFew(all: readonly Wanted[]): void {
  const count = all.reduce((sum, { tables }) => sum + Math.max(1, tables.size), 0)
  if (count > MAX_TABLES) throw tooManyTables()
}

function bounded(wanted: Wanted): Wanted {
  if (wanted.tables.size > MAX_TABLES) throw tooManyTables()
  return wanted
}
