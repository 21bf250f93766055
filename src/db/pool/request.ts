import type { AppError } from '../../core/errors.ts'
import type { PgError } from '../pg-errors.ts'
import type { Connection } from '../protocol/connection.ts'
import type { Flight } from '../protocol/flight.ts'
import type { Side } from './reserves.ts'

export type PooledConnection = Pick<Connection, 'send' | 'cancel' | 'close' | 'destroy' | 'isIdle' | 'localBackend'>

/** Without a flight it never ran. */
export type Done = (error: PgError | AppError | null, flight?: Flight) => void

/** What wants a connection: a flight, or a transaction. */
export type PoolRequest = {
  readonly side: Side
  readonly kind: 'read' | 'row' | 'write' | 'slow'
  /** The main statement of the request. */
  readonly text: string
  /** Milliseconds that each statement may take. */
  readonly timeoutMs: number
  /**
   * Called for each try; the connection is taken until `onDone` is called. A flight that is returned can be cancelled.
   * `lockMs`: how long it may wait for a lock on this try.
   */
  start(connection: PooledConnection, timeoutMs: number, onDone: Done, lockMs?: number): Flight | undefined
  onDone: Done
}
