import type { Table } from '../schema/snapshot.ts'
import { AND, COMMA, EMPTY, Ident, join, type Sql, sql } from '../sql.ts'

/** Places in the table that are named; of more than these the table is read whole. */
const MOST = 100_000

/**
 * Rows that may fulfil a condition, found by an index that a policy would keep PostgreSQL from. Only with the server's
 * key does svc.candidates() look; see migrations/0050_search.sql.
 */
export class Candidates {
  readonly #key: string

  constructor(key: string) {
    this.#key = key
  }

  /**
   * A `tid[]` for the statement that reads these rows under the caller's policies and the same condition. The condition
   * holds no values: its row is `svc_t`, its values are `$1[1]`, `$1[2]` and so on, with their schema like all names.
   */
  of(table: Table, condition: Sql, given: readonly Sql[], similarity: Sql = sql`null`): Sql {
    const values = given.reduce((all, one) => sql`${all}, ${one}::text`, sql`null::text`)
    return sql`svc.candidates(${this.#key}::text, ${table.ident.quoted}::pg_catalog.regclass, ${condition.text}::text,
      (array[${values}])[2:], ${MOST}::int4, ${similarity}::text)`
  }
}

/** Its rows are in one place, and can be found at it. */
export const isFlat = (table: Table): boolean => table.kind === 'table'

/** A policy may hide rows from the role. */
export const hidesRows = (table: Table, role: string): boolean => table.rlsEnabled && role !== 'none'

/** How a statement gets at the rows of a table that it has candidates for, whatever it then does with them. */
export type CandidateBranches = {
  /** Tables of its WITH, which the conditions read. */
  readonly tables: readonly Sql[]
  /** The conditions of each way. All rows there are come by one of them. */
  readonly branches: readonly (readonly Sql[])[]
}

/**
 * Candidates are fetched by their place in the table, which a policy does not forbid; when they are too many to name, the
 * table is read as without them. Each `tid[]` is worked out once. `name` keeps the sets of a statement apart.
 */
export function candidateBranches(candidates: readonly Sql[], row: Ident, name = 'svc_set'): CandidateBranches {
  if (candidates.length === 0) return { tables: [], branches: [[]] }
  const at = (i: number): Ident => new Ident(`${name}${i}`)
  const anySet = candidates.map((_, i) => sql`(select tids is not null from ${at(i)})`)
  const isIn = candidates.map(
    (_, i) => sql`${row}.ctid operator(pg_catalog.=) any ((select tids from ${at(i)})::pg_catalog.tid[])`,
  )
  return {
    tables: candidates.map((tids, i) => sql`${at(i)} as materialized (select ${tids} as tids)`),
    branches: [isIn, [sql`not (${join(anySet, AND)})`]],
  }
}

/** The rows of all ways, each selected under its conditions. */
export const unionOf = (ways: CandidateBranches['branches'], select: (conditions: readonly Sql[]) => Sql): Sql =>
  join(ways.map(select), sql` union all `)

/** A WITH of these tables, or nothing. */
export const withTables = (tables: readonly Sql[]): Sql =>
  tables.length > 0 ? sql`with ${join(tables, COMMA)} ` : EMPTY
