import type { DatabaseRole } from '../../core/identity.ts'
import type { Table } from '../schema/snapshot.ts'
import { AND, EMPTY, Ident, join, type Sql, sql } from '../sql.ts'

/** Most row addresses (ctid) per set; with more, the whole table is read. */
const MAX_TIDS = 100_000

/**
 * Finds rows that may fulfil a condition by an index that PostgreSQL would not use under a policy. svc.candidates()
 * requires the server's key; see migrations/0050_search.sql.
 */
export class Candidates {
  readonly #key: string

  constructor(key: string) {
    this.#key = key
  }

  /**
   * A `tid[]` for the statement that reads these rows under the caller's policies and the same condition. The condition
   * has the row `svc_t`, the values `$1[1]`, `$1[2]` and so on, and names qualified with their schema.
   */
  of(table: Table, condition: Sql, params: readonly Sql[], similarity: Sql = sql`null`): Sql {
    const values = params.reduce((all, one) => sql`${all}, ${one}::text`, sql`null::text`)
    return sql`svc.candidates(${this.#key}::text, ${table.ident.quoted}::pg_catalog.regclass, ${condition.text}::text,
      (array[${values}])[2:], ${MAX_TIDS}::int4, ${similarity}::text)`
  }
}

/** Rows of a plain table can be found by ctid, by roles that may read the table as a whole. */
export const isReadByCtid = (table: Table, role: DatabaseRole): boolean =>
  table.kind === 'table' && table.wholeFor.has(role)

/** A policy may hide rows from the role. */
export const hidesRows = (table: Table, role: string): boolean => table.rlsEnabled && role !== 'none'

/** How a statement reads the rows of a table by its candidates. */
export type CandidateBranches = {
  /** Tables of its WITH, used by the conditions. */
  readonly tables: readonly Sql[]
  /** The conditions of each branch of a UNION ALL; each row is read by one branch. */
  readonly branches: readonly (readonly Sql[])[]
}

/**
 * Candidates are read by ctid, which PostgreSQL does under a policy too; when there are too many, the other branch reads
 * the table as without them. Each `tid[]` is computed once. `name` distinguishes the sets of a statement.
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

/** The rows of all branches, each selected under its conditions. */
export const unionOf = (branches: CandidateBranches['branches'], select: (conditions: readonly Sql[]) => Sql): Sql =>
  join(branches.map(select), sql` union all `)

/** A WITH of these tables, or nothing. */
export const withTables = (tables: readonly Sql[]): Sql => (tables.length > 0 ? sql`with ${join(tables)} ` : EMPTY)
