import type { CancelSignal } from '../core/cancel-signal.ts'
import type { Identity } from '../core/identity.ts'
import type { Sql } from './sql.ts'
import type { OnRow } from './wire/data-rows.ts'

export type FlyOptions = {
  /**
   * The statements change nothing: they may share a connection with other reads, and may be flown twice when the first
   * try is held up. Everything else has a connection to itself and is flown once.
   */
  reads?: boolean
  /**
   * `slow`: statements that may take long (RPC, search, GraphQL); fewer of them run at a time, so that they leave room.
   * `own`: statements that may take minutes, such as jobs; a connection outside the pool, opened for this flight.
   */
  lane?: 'fast' | 'slow' | 'own'
  /**
   * No function or trigger of the operator runs in it, so that nothing can be left in the session. Otherwise what a
   * caller's write left there is cleared away behind it.
   */
  plain?: boolean
  /** Aborting cancels the statement in PostgreSQL; what still waits for a connection never runs. */
  signal?: CancelSignal
  /** Milliseconds per statement; default `api.statement_timeout`. */
  timeoutMs?: number
  /** Milliseconds that a statement waits for a lock; default eight seconds. */
  lockTimeoutMs?: number
  /** Bytes of rows it may answer, then 413 `response too large`; for pages that are made smaller until they fit. */
  maxBytes?: number
}

export type FlyAllOptions = FlyOptions & {
  /** The one row that is written. Those who write to the same one wait for their turn without a connection. */
  row?: string | undefined
}

export const READS: FlyOptions = { reads: true }

/** One row in the types of PostgreSQL's catalogue: bool, ints and float → JS, json → parsed, text[] → array, timestamptz → Date, else text. */
export type Row = Record<string, unknown>

/** What PostgreSQL sent, untouched: as bytes where it is long, since to make a text of those holds up everybody else. */
export type Relayed = string | Buffer

/** The one door to PostgreSQL. `who` is always first; there is no other way in. */
export interface Db {
  /**
   * One network flight, one implicit transaction, all or nothing. Resolves to the first column of the first
   * row of the last statement, untouched (usually JSON text), or null when there is none.
   */
  fly(who: Identity, statements: Sql | readonly [Sql, ...Sql[]], options?: FlyOptions): Promise<string | null>
  /** As `fly`, with the first column of the first row of every statement. */
  flyAll(who: Identity, statements: readonly [Sql, ...Sql[]], options?: FlyAllOptions): Promise<(string | null)[]>
  /** As `fly` and `flyAll`, for answers that are passed on. */
  relay(who: Identity, statements: Sql | readonly [Sql, ...Sql[]], options?: FlyOptions): Promise<Relayed | null>
  relayAll(who: Identity, statements: readonly [Sql, ...Sql[]], options?: FlyOptions): Promise<(Relayed | null)[]>
  /** As `fly`, with the rows of the last statement as objects. */
  rows<T extends object = Row>(
    who: Identity,
    statements: Sql | readonly [Sql, ...Sql[]],
    options?: FlyOptions,
  ): Promise<T[]>
  /** As `rows`, for texts that are passed on. */
  relayRows<T extends object>(
    who: Identity,
    statements: Sql | readonly [Sql, ...Sql[]],
    options?: FlyOptions,
  ): Promise<T[]>
  /** As `fly`, with the number of rows the last statement returned or changed. */
  run(who: Identity, statements: Sql | readonly [Sql, ...Sql[]], options?: FlyOptions): Promise<number>
  /** For work whose next statement depends on the last answer. Retried whole on serialisation failure or deadlock. */
  tx<T>(who: Identity, work: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * As `tx`, on a connection outside the pool, opened for it: for work that takes long because its caller does, such as
   * exports. Not retried. Whoever asks for it bounds how many there are at once.
   */
  txApart<T>(who: Identity, work: (tx: Tx) => Promise<T>, options?: ApartOptions): Promise<T>
  /** Calls `heard` for each NOTIFY, survives reconnects; `reconnected` runs after a gap in which notifications were lost. */
  listen(channel: string, heard: (payload: string) => void, reconnected?: () => void): Promise<() => Promise<void>>
}

export type ApartOptions = {
  /** Aborting ends the connection, and with it the transaction. */
  signal?: CancelSignal
  /** One snapshot for all statements, none of which writes. */
  isSnapshot?: boolean
}

export interface Tx {
  /**
   * Hands out the rows as they arrive, as PostgreSQL wrote them, and answers how many they were. `hold` is asked every
   * few rows; until what it answers is over, no more come.
   */
  each(statement: Sql, onRow: OnRow, hold: () => Promise<void> | undefined): Promise<number>
  fly(statement: Sql): Promise<string | null>
  /** Several in one flight; the first column of the first row of each. */
  flyAll(statements: readonly Sql[]): Promise<(string | null)[]>
  rows<T extends object = Row>(statement: Sql): Promise<T[]>
  run(statement: Sql): Promise<number>
}
