import type pg from 'pg'
import { type ConnectOptions, cancelBackend, openConnection } from './connect.ts'
import { Flight, type Naming, type Step, type StepResult, type Wire } from './flight.ts'
import type { PgError } from './pg-errors.ts'
import { StatementCache, UNNAMED } from './statement-cache.ts'

type Sent = { flight: Flight; cancelled: boolean }

/** One pipelined connection: flights leave in order and come back in order. */
export class Connection {
  readonly #client: pg.Client
  readonly #options: ConnectOptions
  readonly #prepared: boolean
  readonly #statements = new StatementCache()
  readonly #sent: Sent[] = []
  /** Since when this connection has nothing to do, in performance.now() milliseconds. */
  idleSince = performance.now()
  closed = false
  /** Slots that the lane has given away on this connection. */
  taken = 0

  private constructor(client: pg.Client, options: ConnectOptions, prepared: boolean, onClose: (c: Connection) => void) {
    this.#client = client
    this.#options = options
    this.#prepared = prepared
    const wire = (client as unknown as { connection: Wire }).connection
    wire.on('parseComplete', () => {
      const head = this.#sent[0]
      if (head) head.flight.parsedCount++
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

  /** Flights sent and not yet answered. */
  get depth(): number {
    return this.#sent.length
  }

  /**
   * Sends a flight; resolves with one result per statement. Aborting `signal` cancels it in PostgreSQL, if it is
   * the one being run.
   */
  send(
    steps: readonly Step[],
    role: string,
    options: { describe?: boolean; signal?: AbortSignal | undefined } = {},
  ): Promise<StepResult[]> {
    return new Promise((resolve, reject) => {
      const naming: Naming = this.#prepared ? this.#statements.naming(role) : UNNAMED
      const flight = new Flight(steps, naming, { describe: options.describe ?? false }, (error, results) => {
        const at = this.#sent.indexOf(sent)
        if (at >= 0) this.#sent.splice(at, 1)
        if (this.#sent.length === 0) this.#becameIdle()
        options.signal?.removeEventListener('abort', cancel)
        if (!error) return resolve(results)
        this.#afterError(flight, error)
        reject(error)
      })
      const sent: Sent = { flight, cancelled: false }
      const cancel = () => {
        if (this.#sent[0] !== sent) return
        sent.cancelled = true
        cancelBackend(this.#options, this.#client).catch(() => {})
      }
      this.#sent.push(sent)
      options.signal?.addEventListener('abort', cancel, { once: true })
      this.#client.query(flight as unknown as pg.Submittable)
    })
  }

  /** After an error only the statements PostgreSQL confirmed are prepared on this connection. */
  #afterError(flight: Flight, error: PgError): void {
    for (const name of flight.parsed.slice(flight.parsedCount)) this.#statements.forget(name)
    // 26000: a pipelined neighbour failed before its Parse, on which this flight relied.
    // 0A000: a cached plan whose result type changed under DDL.
    if (error.code === '26000' || error.code === '0A000') this.#statements.forgetAll()
  }

  #becameIdle(): void {
    this.idleSince = performance.now()
    if (this.closed) void this.close()
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
    const { stream } = (this.#client as unknown as { connection: { stream: { destroy(): void } } }).connection
    stream.destroy()
  }
}
