import type { Departure } from '../core/departure.ts'
import type { Identity } from '../core/identity.ts'
import type { Sql } from './sql.ts'

/**
 * `fast`: short statements; several flights share a pipelined connection.
 * `slow`: statements that may take long (RPC, search, GraphQL); each has a connection to itself,
 * so that a pg_sleep never delays a read by id.
 * `own`: statements that may take minutes, such as jobs; a connection outside the pool, opened for this flight.
 */
export type Lane = 'fast' | 'slow' | 'own'

export type FlyOptions = {
  lane?: Lane
  /** Aborting cancels the statement in PostgreSQL. */
  signal?: Departure
  /** Milliseconds per statement; default `api.statement_timeout`. */
  timeoutMs?: number
}

/** One row in the types of PostgreSQL's catalogue: bool, ints and float → JS, json → parsed, text[] → array, timestamptz → Date, else text. */
export type Row = Record<string, unknown>

/** The one door to PostgreSQL. `who` is always first; there is no other way in. */
export interface Db {
  /**
   * One network flight, one implicit transaction, all or nothing. Resolves to the first column of the first
   * row of the last statement, untouched (usually JSON text), or null when there is none.
   */
  fly(who: Identity, statements: Sql | readonly [Sql, ...Sql[]], options?: FlyOptions): Promise<string | null>
  /** As `fly`, with the first column of the first row of every statement. */
  flyAll(who: Identity, statements: readonly [Sql, ...Sql[]], options?: FlyOptions): Promise<(string | null)[]>
  /** As `fly`, with the rows of the last statement as objects. */
  rows<T extends object = Row>(
    who: Identity,
    statements: Sql | readonly [Sql, ...Sql[]],
    options?: FlyOptions,
  ): Promise<T[]>
  /** As `fly`, with the number of rows the last statement returned or changed. */
  run(who: Identity, statements: Sql | readonly [Sql, ...Sql[]], options?: FlyOptions): Promise<number>
  /** For work whose next statement depends on the last answer. Retried whole on serialisation failure or deadlock. */
  tx<T>(who: Identity, work: (tx: Tx) => Promise<T>): Promise<T>
  /** Calls `heard` for each NOTIFY, survives reconnects; `reconnected` runs after a gap in which notifications were lost. */
  listen(channel: string, heard: (payload: string) => void, reconnected?: () => void): Promise<() => Promise<void>>
}

export interface Tx {
  fly(statement: Sql): Promise<string | null>
  rows<T extends object = Row>(statement: Sql): Promise<T[]>
  run(statement: Sql): Promise<number>
}
