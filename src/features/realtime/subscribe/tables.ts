import { badRequest } from '../../../core/errors.ts'
import { getOrCreate } from '../../../core/get-or-create.ts'
import type { Identity } from '../../../core/identity.ts'
import type { Db } from '../../../db/db.ts'
import { nearTable } from '../../../db/schema/did-you-mean.ts'
import { findOrRefresh, findStreamed, mayDo } from '../../../db/schema/lookup.ts'
import type { Schema, SchemaCache, Table } from '../../../db/schema/snapshot.ts'
import { notAllowed, viewerOf } from '../../../db/schema/viewer.ts'
import { tryFilter } from './filter.ts'
import { interestKey, mayHear } from './interest.ts'
import { boundedNames, EVERYTHING, type Wanted, wantedTables } from './wanted.ts'

/** `tables` undefined = all that the caller may read. */
export type Selection = { tables: readonly string[] | undefined; filter?: string | undefined }

/** Names in an array, or in a text separated by commas. */
export const namesIn = (tables: string | readonly string[]): string[] =>
  (typeof tables === 'string' ? tables.split(',') : tables).map((name) => name.trim()).filter(Boolean)

const MAX_ACCEPTED = 100

/** The tables that callers name, in a snapshot of the schema that may be a moment old. */
export class Tables {
  readonly #deps: { db: Db; schema: SchemaCache }
  readonly #accepted = new WeakMap<Schema, Set<string>>()

  constructor(deps: { db: Db; schema: SchemaCache }) {
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
      const table = findStreamed(this.#deps.schema.read(), name)
      return table ? [interestKey(table)] : []
    })
  }

  read(): Schema {
    return this.#deps.schema.read()
  }

  /**
   * Whether the snapshot is what the database has, though it differs from what was found in the catalogue: tables may be
   * there that are not exposed. It is looked up once for each snapshot and finding.
   */
  async isCurrent(snapshot: Schema, found: string): Promise<boolean> {
    const accepted = getOrCreate(this.#accepted, snapshot, () => new Set<string>())
    if (accepted.has(found)) return true
    if ((await this.#deps.schema.refreshIfStale()) !== snapshot) return false
    if (accepted.size >= MAX_ACCEPTED) accepted.clear()
    accepted.add(found)
    return true
  }

  async #readable(who: Identity, names: readonly string[]): Promise<Table[]> {
    const viewer = viewerOf(who)
    const found: Table[] = []
    for (const name of boundedNames(names)) {
      const table = await findOrRefresh(this.#deps.schema, (snapshot) => findStreamed(snapshot, name))
      if (!table || !mayDo(table, viewer.role, 'select'))
        throw badRequest(`unknown table: ${name}`, 'unknown_table', nearTable(this.#deps.schema.read(), name, viewer))
      if (!mayHear(this.#deps.schema.read(), table, viewer, who)) throw notAllowed(table)
      found.push(table)
    }
    return found
  }
}
