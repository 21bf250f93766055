import { getOrCreate } from '../../../core/get-or-create.ts'
import { type Change, idOf } from '../../../db/changes/log.ts'
import type { Table } from '../../../db/schema/snapshot.ts'
import type { Reaction } from './dependencies.ts'
import type { LiveGroup } from './group.ts'
import { equalByPolicy } from './policy-equality.ts'

/** Questions to PostgreSQL about changes of a table. */
export type Inquiry = {
  /** JSON of the keys of rows that were made or changed. */
  readonly keys: string[]
  /** The lists that the rows may belong to. */
  readonly groups: Set<LiveGroup>
  /** Ids of updates, which may have changed a key. */
  readonly updates: string[]
}

/** A column and the value that it has in every row of a list. `isSure`: most rows with it are in the list. */
type Place = { readonly column: string; readonly value: string; readonly isSure: boolean }

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
  readonly #places = new Map<LiveGroup, Place | undefined>()
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
      const place = placeOf(group)
      this.#places.set(group, place)
      if (place) this.#valuesOf(place.column, place.value).add(group)
      else this.#others.add(group)
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
    this.#others.delete(group)
    const { column = '', value = '' } = this.#places.get(group) ?? {}
    this.#places.delete(group)
    const values = this.#byValue.get(column)
    const groups = values?.get(value)
    groups?.delete(group)
    if (groups?.size === 0) values?.delete(value)
    if (values?.size === 0) this.#byValue.delete(column)
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
    for (const group of this.#reads) concerns(group)
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
    for (const group of [...this.#reads, ...this.#parents, ...this.#judged]) concerns(group)
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
      if (this.#places.get(group)?.isSure) concerns(group)
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
  #mayHave({ record }: Change): LiveGroup[] {
    const found = [...this.#others]
    if (this.#byValue.size === 0) return found
    const row = parsed(record === null ? '' : record.toString())
    for (const [column, values] of this.#byValue) {
      const value = row?.[column]
      const isTold =
        row !== undefined && Object.hasOwn(row, column) && (typeof value !== 'number' || Number.isSafeInteger(value))
      for (const groups of isTold ? [values.get(String(value)) ?? []] : values.values()) found.push(...groups)
    }
    return found
  }

  #valuesOf(column: string, value: string): Set<LiveGroup> {
    const values = getOrCreate(this.#byValue, column, () => new Map<string, Set<LiveGroup>>())
    return getOrCreate(values, value, () => new Set())
  }
}

/** A column that has one value in each row it may hold. */
function placeOf({ plan, session }: LiveGroup): Place | undefined {
  if (!plan?.own) return undefined
  const [[column, value] = []] = plan.own.equal
  if (column !== undefined && value !== undefined) return { column, value, isSure: false }
  const [owned] = equalByPolicy(plan.own.table, session)
  return owned === undefined ? undefined : { column: owned, value: session.userId, isSure: plan.own.isUnfiltered }
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
