import { getOrCreate } from '../../../core/get-or-create.ts'
import { type Change, idOf } from '../../../db/changes/log.ts'
import type { Table } from '../../../db/schema/snapshot.ts'
import type { Reaction } from './dependencies.ts'
import type { LiveGroup } from './group.ts'
import { LoggedRow, placesByPolicy, type RowPlace } from './places.ts'

/** Questions to PostgreSQL about changes of a table. */
export type Inquiry = {
  /** JSON of the keys of rows that were made or changed. */
  readonly keys: string[]
  /** The lists that the rows may belong to. */
  readonly groups: Set<LiveGroup>
  /** Ids of updates, which may have changed a key. */
  readonly updates: string[]
}

/**
 * Where the rows of a list are: it is found by `index`, of which each row has one, and all of `equal` and one of `policy` hold besides. `isSure`: most rows
 * there are in the list.
 */
type Location = {
  readonly index: readonly RowPlace[]
  readonly equal: readonly RowPlace[]
  readonly policy: readonly RowPlace[] | undefined
  readonly isSure: boolean
}

/** Beyond these, all who may be concerned read again. */
const MAX_KEYS = 500
const MAX_UPDATES = 2_000

/** The live lists that a table is part of: who is concerned by a change, as far as that is known without PostgreSQL. */
export class TableWatch {
  readonly #reads = new Set<LiveGroup>()
  readonly #parents = new Set<LiveGroup>()
  /** Those whose own table it is. */
  readonly #judged = new Set<LiveGroup>()
  readonly #sums = new Set<LiveGroup>()
  /** By the key of a row that is held. */
  readonly #holders = new Map<string, Set<LiveGroup>>()
  /** By column and value, those who see no row with another one. */
  readonly #byValue = new Map<string, Map<string, Set<LiveGroup>>>()
  readonly #others = new Set<LiveGroup>()
  readonly #locations = new Map<LiveGroup, Location>()
  /** Those of its own that are being read. */
  readonly reading = new Set<LiveGroup>()
  #inquiry: Inquiry | undefined

  get isEmpty(): boolean {
    return this.#reads.size === 0 && this.#parents.size === 0 && this.#judged.size === 0
  }

  /** As those who judge it know it. */
  get table(): Table | undefined {
    for (const { plan } of this.#judged) if (plan?.own) return plan.own.table
    return undefined
  }

  add(group: LiveGroup, reaction: Reaction): void {
    if (reaction === 'read') this.#reads.add(group)
    else if (reaction === 'rows gone') this.#parents.add(group)
    else {
      this.#judged.add(group)
      if (group.plan?.own?.isAggregate) this.#sums.add(group)
      this.place(group)
      this.hold(group)
    }
  }

  remove(group: LiveGroup): void {
    this.release(group)
    this.#reads.delete(group)
    this.#parents.delete(group)
    this.#sums.delete(group)
    this.#inquiry?.groups.delete(group)
    this.#judged.delete(group)
    this.reading.delete(group)
    this.#unplace(group)
  }

  /** Where its rows may be, as far as that is known now. */
  place(group: LiveGroup): void {
    this.#unplace(group)
    const location = locationOf(group)
    if (!location) {
      this.#others.add(group)
      return
    }
    this.#locations.set(group, location)
    for (const { column, value } of location.index) this.#valuesOf(column, value).add(group)
  }

  #unplace(group: LiveGroup): void {
    this.#others.delete(group)
    for (const { column, value } of this.#locations.get(group)?.index ?? []) {
      const values = this.#byValue.get(column)
      const groups = values?.get(value)
      groups?.delete(group)
      if (groups?.size === 0) values?.delete(value)
      if (values?.size === 0) this.#byValue.delete(column)
    }
    this.#locations.delete(group)
  }

  /** Its rows are as they are now. */
  hold(group: LiveGroup): void {
    for (const { p } of group.rows ?? []) if (p !== null) getOrCreate(this.#holders, p, () => new Set()).add(group)
  }

  /** Before its rows change. */
  release(group: LiveGroup): void {
    for (const { p } of group.rows ?? []) {
      const holders = p === null ? undefined : this.#holders.get(p)
      if (holders?.delete(group) && holders.size === 0) this.#holders.delete(p ?? '')
    }
  }

  /** Calls `concerns` for all who have to read again; the inquiry is for the others. */
  onChange(change: Change, concerns: (group: LiveGroup) => void): void {
    const { action, key = null } = change
    for (const group of this.#reads) concernsByPolicy(group, concerns)
    if (action !== 'create') for (const group of this.#parents) concerns(group)
    if (this.#judged.size === 0) return
    if (action === 'truncate' || key === null) {
      for (const group of this.#judged) concerns(group)
      return
    }
    if (action !== 'create') for (const group of this.#sums) concerns(group)
    this.onKey(key, concerns)
    if (action !== 'delete') this.#ask(change, concerns)
  }

  /** A row with this key has changed. */
  onKey(key: string, concerns: (group: LiveGroup) => void): void {
    for (const group of this.#holders.get(key) ?? []) concerns(group)
    for (const group of this.reading) group.miss(key)
  }

  /** All who have to read again because anything may have changed. */
  onAnything(concerns: (group: LiveGroup) => void): void {
    for (const group of [...this.#reads, ...this.#parents, ...this.#judged]) concernsByPolicy(group, concerns)
  }

  /** What came since the last one. */
  takeInquiry(): Inquiry | undefined {
    const inquiry = this.#inquiry
    this.#inquiry = undefined
    return inquiry
  }

  #ask(change: Change, concerns: (group: LiveGroup) => void): void {
    this.#inquiry ??= { keys: [], groups: new Set(), updates: [] }
    const inquiry = this.#inquiry
    const candidates: LiveGroup[] = []
    for (const group of this.#mayHave(change)) {
      // Its rows are those of the caller: PostgreSQL would only say so.
      if (this.#locations.get(group)?.isSure) concerns(group)
      else candidates.push(group)
    }
    if (change.action === 'update') {
      if (inquiry.updates.length < MAX_UPDATES) inquiry.updates.push(idOf(change))
      else for (const group of this.#judged) concerns(group)
    }
    if (candidates.length === 0) return
    if (inquiry.keys.length >= MAX_KEYS) for (const group of candidates) concerns(group)
    else {
      inquiry.keys.push(change.pk)
      for (const group of candidates) inquiry.groups.add(group)
    }
  }

  /** Those whose row it may be. */
  #mayHave(change: Change): LiveGroup[] {
    const found = [...this.#others]
    if (this.#byValue.size === 0) return found
    const row = new LoggedRow(change)
    for (const [column, values] of this.#byValue) {
      const value = row.value(column)
      for (const groups of value === undefined ? values.values() : [values.get(value) ?? []]) {
        for (const group of groups) if (this.#mayHold(group, row)) found.push(group)
      }
    }
    return found
  }

  #mayHold(group: LiveGroup, row: LoggedRow): boolean {
    const { equal = [], policy } = this.#locations.get(group) ?? {}
    return equal.every((place) => row.mayBeAt(place)) && (policy?.some((place) => row.mayBeAt(place)) ?? true)
  }

  #valuesOf(column: string, value: string): Set<LiveGroup> {
    const values = getOrCreate(this.#byValue, column, () => new Map<string, Set<LiveGroup>>())
    return getOrCreate(values, value, () => new Set())
  }
}

/** A table that decides who sees what has changed, or may have. */
function concernsByPolicy(group: LiveGroup, concerns: (group: LiveGroup) => void): void {
  group.hasOldValues = true
  concerns(group)
}

function locationOf(group: LiveGroup): Location | undefined {
  const { own } = group.plan ?? {}
  if (!own) return undefined
  const equal = [...own.equal].map(([column, value]) => ({ column, value }))
  const policy = placesByPolicy(group)
  // By true and false little is told apart.
  const [first] = equal.filter(({ column }) => own.table.columns.get(column)?.baseType !== 'bool')
  const index = first ? [first] : (policy ?? equal.slice(0, 1))
  return first || policy || equal.length > 0 ? { index, equal, policy, isSure: own.isUnfiltered } : undefined
}
