import type { Clock } from '../../../core/clock.ts'
import { badRequest } from '../../../core/errors.ts'
import type { Identity } from '../../../core/identity.ts'
import type { Db } from '../../../db/db.ts'
import { findOrRefresh, findTable, mayDo, tableByOid } from '../../../db/schema/lookup.ts'
import type { Schema, SchemaCache, Table } from '../../../db/schema/snapshot.ts'
import { isAllowed, notAllowed, viewerOf } from '../../../db/schema/viewer.ts'
import { tryFilter } from './filter.ts'
import { interestKey } from './interest.ts'
import { boundedNames, EVERYTHING, type Wanted, wantedTables } from './wanted.ts'

/** `tables` undefined = all that the caller may read. */
export type Selection = { tables: readonly string[] | undefined; filter?: string | undefined }

/** Names in an array, or in a text separated by commas. */
export const namesIn = (tables: string | readonly string[]): string[] =>
  (typeof tables === 'string' ? tables.split(',') : tables).map((name) => name.trim()).filter(Boolean)

const RETRY_MISSING_MS = 1_000
const MAX_MISSING = 1_000

/** The tables that callers name, in a snapshot of the schema that may be a moment old. */
export class Tables {
  readonly #deps: { db: Db; schema: SchemaCache; clock: Clock }
  readonly #missingSince = new Map<string | number, number>()

  constructor(deps: { db: Db; schema: SchemaCache; clock: Clock }) {
    this.#deps = deps
  }

  /** What a caller selects, if the tables exist and the caller may read them. */
  async select(who: Identity, { tables, filter }: Selection): Promise<Wanted> {
    const found = tables && (await this.#readable(who, tables))
    if (!filter?.trim()) return found ? wantedTables(found.map(interestKey), undefined) : EVERYTHING
    const [only] = found ?? []
    if (!only || found?.length !== 1) throw badRequest('filter requires exactly one table', 'invalid_filter')
    await tryFilter(this.#deps.db, who, filter, { schema: this.#deps.schema.read(), table: only })
    return wantedTables([interestKey(only)], filter)
  }

  /** The keys of those of the tables that exist. */
  keysOf(names: readonly string[]): string[] {
    return names.flatMap((name) => {
      const table = findTable(this.#deps.schema.read(), name)
      return table ? [interestKey(table)] : []
    })
  }

  /** A snapshot that knows these tables, by name or oid. One that is missing may be new; one that was missing just now is not. */
  async schemaWith(wanted: readonly (string | number)[]): Promise<Schema> {
    const now = this.#deps.clock.now()
    const mayBeNew = (one: string | number): boolean =>
      now - (this.#missingSince.get(one) ?? Number.NEGATIVE_INFINITY) >= RETRY_MISSING_MS
    const known = await findOrRefresh(this.#deps.schema, (snapshot) => {
      const find = (one: string | number): Table | undefined =>
        typeof one === 'string' ? findTable(snapshot, one) : tableByOid(snapshot, one)
      const missing = wanted.filter((one) => !find(one) && mayBeNew(one))
      if (missing.length === 0) return snapshot
      if (this.#missingSince.size > MAX_MISSING) this.#missingSince.clear()
      for (const one of missing) this.#missingSince.set(one, now)
      return undefined
    })
    return known ?? this.#deps.schema.read()
  }

  async #readable(who: Identity, names: readonly string[]): Promise<Table[]> {
    const viewer = viewerOf(who)
    const found: Table[] = []
    for (const name of boundedNames(names)) {
      const table = findTable(this.#deps.schema.read(), name) ?? findTable(await this.schemaWith([name]), name)
      if (!table || !mayDo(table, viewer.role, 'select')) throw badRequest(`unknown table: ${name}`, 'unknown_table')
      if (!isAllowed(this.#deps.schema.read(), table, viewer)) throw notAllowed(table)
      found.push(table)
    }
    return found
  }
}
