import { AppError } from '../../core/errors.ts'
import { type Sql, sql } from '../sql.ts'

/**
 * The time of a request that takes several statements. PostgreSQL's timeout is of each statement, so each one that others
 * follow sets it again, to what is left.
 */
export class TimeBudget {
  readonly #end: number

  constructor(ms: number) {
    this.#end = performance.now() + ms
  }

  /** Milliseconds for the next flight; throws when there are none. */
  get left(): number {
    const left = Math.floor(this.#end - performance.now())
    if (left < 1) throw new AppError('statement_timeout', 'query timed out')
    return left
  }

  /** A last column of a statement: those that follow it in the flight have what is left since the flight began. */
  get remainder(): Sql {
    return sql`pg_catalog.set_config('statement_timeout', greatest(1, ${this.left}::int8 operator(pg_catalog.-)
      (extract(epoch from pg_catalog.clock_timestamp() operator(pg_catalog.-) pg_catalog.transaction_timestamp())
        operator(pg_catalog.*) 1000)::int8)::text, true)`
  }
}
