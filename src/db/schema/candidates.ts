import { type Sql, sql } from '../sql.ts'
import type { Table } from './snapshot.ts'

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
