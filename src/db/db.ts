import type { CancelSignal } from '../core/cancel-signal.ts'
import type { Identity } from '../core/identity.ts'
import type { KeepOnce } from '../core/once.ts'
import type { Sql } from './sql.ts'

export type FlyOptions = {
  /**
   * `read`: changes nothing; may share a connection with other reads, and may be flown twice when the first try is slow.
   * `write`, the default: has a connection to itself and is flown once.
   * `slow`: may take long (RPC, search, GraphQL); as a write, but fewer run at a time.
   * `apart`: may take minutes, such as a job; a connection outside the pool, opened for this flight.
   */
  kind?: 'read' | 'write' | 'slow' | 'apart'
  /**
   * No function or trigger of the operator runs in it, so it cannot change session state. Otherwise the session is reset
   * after a caller's write.
   */
  plain?: boolean
  /** The one row that is written. Writes to the same row queue without occupying a connection. */
  row?: string | undefined
  /** Aborting cancels the statement in PostgreSQL, or removes the flight from the queue. */
  signal?: CancelSignal
  /** Milliseconds per statement; default `api.statement_timeout`. */
  timeoutMs?: number
  /** Milliseconds that a statement waits for a lock; default eight seconds. */
  lockTimeoutMs?: number
  /**
   * Asks PostgreSQL to write definitions down, for which it locks tables: does not wait long for one, but begins again. A change
   * of the schema is never the victim of a deadlock with it.
   */
  givesWay?: boolean
  /** Most bytes of rows in the result, then 413 `response too large`; callers retry with a smaller page. */
  maxBytes?: number
  /** Of a write with an Idempotency-Key: claimed before its statements, and kept with its answer before the commit. */
  once?: KeepOnce<readonly (Relayed | null)[]> | undefined
}

/** Returns long values as the bytes PostgreSQL sent: decoding them would block the event loop. */
export type AsBytes = { as: 'bytes' }

/** A value as PostgreSQL sent it: a text, or bytes where it is long. */
export type Relayed = string | Buffer

/** One row as PostgreSQL sent it: cell i is the bytes from `starts[i]` up to `ends[i]`, NULL where that is before its start. */
export type RawRow = {
  readonly bytes: Buffer
  readonly count: number
  readonly starts: Int32Array
  readonly ends: Int32Array
}

/** Called for each row, which is good until the call ends. */
export type OnRow = (row: RawRow) => void

/** One row in the types of PostgreSQL's catalogue: bool, ints and float → JS, json → parsed, text[] → array, timestamptz → Date, else text. */
export type Row = Record<string, unknown>

/** The statements of one flight. */
export type Statements = readonly [Sql, ...Sql[]]

/** One value per statement. */
export type Values<S extends readonly Sql[], V> = { -readonly [K in keyof S]: V | null }

/** The only access to PostgreSQL. `who` is always the first argument. */
export interface Db {
  /**
   * One network round trip, one implicit transaction. Resolves to the first column of the first row, unparsed (usually
   * JSON text), or null when there is no row; for several statements, to one such value each.
   */
  fly(who: Identity, statement: Sql, options: FlyOptions & AsBytes): Promise<Relayed | null>
  fly(who: Identity, statement: Sql, options?: FlyOptions): Promise<string | null>
  fly<const S extends Statements>(
    who: Identity,
    statements: S,
    options: FlyOptions & AsBytes,
  ): Promise<Values<S, Relayed>>
  fly<const S extends Statements>(who: Identity, statements: S, options?: FlyOptions): Promise<Values<S, string>>
  /** The rows of the last statement as objects. */
  rows<T extends object = Row>(
    who: Identity,
    statements: Sql | Statements,
    options?: FlyOptions & Partial<AsBytes>,
  ): Promise<T[]>
  /** The number of rows the last statement returned or changed. */
  run(who: Identity, statements: Sql | Statements, options?: FlyOptions): Promise<number>
  /** For work whose next statement depends on the last result. Retried as a whole on serialisation failure or deadlock. */
  tx<T>(who: Identity, work: (tx: Tx) => Promise<T>, options?: ApartOptions<T>): Promise<T>
}

/** LISTEN, for parts that wait for other processes. */
export interface Notifications {
  /** Survives reconnects; `onReconnect` runs after a gap in which notifications were lost. */
  listen(channel: string, onNotify: (payload: string) => void, onReconnect?: () => void): Promise<() => Promise<void>>
}

/**
 * On a connection outside the pool, opened for this transaction: for work that lasts as long as its client, such as
 * exports. Not retried, unless it is repeatable. The calling code limits how many run at once.
 */
export type ApartOptions<T = unknown> = {
  apart: true
  /** Aborting ends the connection, and with it the transaction. */
  signal?: CancelSignal
  /** One snapshot for all statements, none of which writes. */
  isSnapshot?: boolean
  /** The same for statements that write: what others have committed meanwhile is a serialisation failure, after which all is done again. */
  isRepeatable?: boolean
  /** As in FlyOptions. */
  once?: KeepOnce<T> | undefined
}

export interface Tx {
  fly(statement: Sql): Promise<string | null>
  fly<const S extends readonly Sql[]>(statements: S): Promise<Values<S, string>>
  rows<T extends object = Row>(statement: Sql): Promise<T[]>
  run(statement: Sql): Promise<number>
  /**
   * Passes on the rows as they arrive, as PostgreSQL wrote them, and resolves to their number. `hold` is called every few
   * rows; reading pauses until its promise resolves.
   */
  each(statement: Sql, onRow: OnRow, hold: () => Promise<void> | undefined): Promise<number>
}
