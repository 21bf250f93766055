import type pg from 'pg'
import type { Departure } from '../../core/departure.ts'
import type { PgError } from '../pg-errors.ts'
import { type ConnectOptions, cancelBackend, openConnection } from './connect.ts'
import { Flight, type Step, type StepResult, type Wire } from './flight.ts'
import { StatementCache, UNNAMED } from './statements.ts'

/** One pipelined connection: flights leave in order and come back in order. */
export class Connection {
  readonly #client: pg.Client
  readonly #options: ConnectOptions
  readonly #prepared: boolean
  readonly #statements = new StatementCache()
  readonly #sent: Flight[] = []
  readonly #stream: { cork(): void; uncork(): void; destroy(): void }
  #isHolding = false
  /** Since when this connection has nothing to do, in performance.now() milliseconds. */
  idleSince = performance.now()
  closed = false
  /** Slots that the lane has given away on this connection. */
  taken = 0
  /** When the flight now at work was begun, in performance.now() milliseconds. */
  busySince = 0

  private constructor(client: pg.Client, options: ConnectOptions, prepared: boolean, onClose: (c: Connection) => void) {
    this.#client = client
    this.#options = options
    this.#prepared = prepared
    const wire = (client as unknown as { connection: Wire }).connection
    this.#stream = wire.stream
    wire.on('parseComplete', () => {
      const head = this.#sent[0]
      if (head) head.parsedCount++
    })
    client.once('end', () => {
      this.closed = true
      onClose(this)
    })
  }

  static async open(
    options: ConnectOptions,
    prepared: boolean,
    onClose: (connection: Connection) => void,
  ): Promise<Connection> {
    const client = await openConnection(options, { pipeline: true })
    return new Connection(client, options, prepared, onClose)
  }

  /**
   * Sends a flight; resolves with one result per statement. Aborting `signal` cancels it in PostgreSQL, if it is
   * the one being run.
   */
  send(
    steps: readonly Step[],
    role: string,
    options: { describe?: boolean; signal?: Departure | undefined } = {},
  ): Promise<StepResult[]> {
    const { describe = false, signal } = options
    return new Promise((resolve, reject) => {
      const naming = this.#prepared ? this.#statements.naming(role) : UNNAMED
      const flight = new Flight(steps, naming, describe, (error, results) => {
        this.#done(flight)
        signal?.removeEventListener('abort', cancel)
        if (!error) return resolve(results)
        this.#afterError(flight, error)
        reject(error)
      })
      const cancel = () => {
        if (this.#sent[0] === flight) cancelBackend(this.#options, this.#client).catch(() => {})
      }
      signal?.addEventListener('abort', cancel, { once: true })
      if (this.#sent.push(flight) === 1) this.busySince = performance.now()
      this.#hold()
      this.#client.query(flight as unknown as pg.Submittable)
    })
  }

  /** Flights of one turn of the event loop leave together: one system call, and PostgreSQL is woken once. */
  #hold(): void {
    if (this.#isHolding) return
    this.#isHolding = true
    this.#stream.cork()
    setImmediate(() => {
      this.#isHolding = false
      this.#stream.uncork()
    })
  }

  #done(flight: Flight): void {
    if (this.#sent[0] === flight) this.#sent.shift()
    else this.#sent.splice(this.#sent.indexOf(flight), 1)
    const now = performance.now()
    this.busySince = now
    if (this.#sent.length > 0) return
    this.idleSince = now
    if (this.closed) void this.close()
  }

  /** After an error only the statements PostgreSQL confirmed are prepared on this connection. */
  #afterError(flight: Flight, error: PgError): void {
    for (const name of flight.parsed.slice(flight.parsedCount)) this.#statements.forget(name)
    // 26000: a pipelined neighbour failed before its Parse, on which this flight relied.
    // 0A000: a cached plan whose result type changed under DDL.
    if (error.code === '26000' || error.code === '0A000') this.#statements.forgetAll()
  }

  /** Takes no more flights, and ends after the ones under way: a caller left the session in a bad state. */
  retire(): void {
    this.closed = true
    if (this.#sent.length === 0) void this.close()
  }

  async close(): Promise<void> {
    this.closed = true
    await this.#client.end().catch(() => {})
  }

  /** Drops the socket without waiting; flights on it fail at once. */
  destroy(): void {
    this.closed = true
    this.#stream.destroy()
  }
}
