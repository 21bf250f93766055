import { type EventEmitter, once } from 'node:events'
import type { Socket } from 'node:net'
import type pg from 'pg'
import { budgets } from '../../core/budgets.ts'
import { AppError, badRequest, unavailable } from '../../core/errors.ts'
import { asConnectionError, isOutdatedPlan, isUnprepared, type PgError } from '../pg-errors.ts'
import { type ConnectOptions, cancelBackend, openConnection } from './connect.ts'
import { Flight, type FlightPlan, type Work } from './flight.ts'
import { Outbox } from './outbox.ts'
import { StatementCache } from './statements.ts'
import { arrivingBytes } from './whole-messages.ts'

export type ConnectionEvents = {
  /** A flight came back, or the connection was let go: there may be room. */
  onFreed(): void
  /** A read came back in time. */
  onQuick?(statement: string): void
  onClosed(connection: Connection): void
}

/** A flight at work for this many ticks of its lane holds up those behind it. */
export const HELD_UP_TICKS = 3
/** A cancel that came before its statement was begun is lost, and repeated; but PostgreSQL starts a process for each. */
const CANCEL_EVERY_TICKS = 10
/** Where nobody takes the cancel, the connection itself may still be good. */
const CANCEL_PATIENCE_MS = 10_000

/** The parts of the driver's connection that are used here; the driver's types do not declare them. */
type Stream = Pick<Socket, 'writable' | 'write' | 'pause' | 'resume' | 'destroy'>
type Wire = { stream: Stream } & Pick<EventEmitter, 'on' | 'removeAllListeners'>

/** Messages of PostgreSQL by their first byte (protocol 3.0, "Message Formats"). */
const PARSE_COMPLETE = 0x31
const BIND_COMPLETE = 0x32
const CLOSE_COMPLETE = 0x33
const COMMAND_COMPLETE = 0x43
const DATA_ROW = 0x44
const COPY_IN = 0x47
const COPY_OUT = 0x48
const EMPTY_QUERY = 0x49
const READY_FOR_QUERY = 0x5a
const HEADER = 5

/** Rides behind a flight that ran user code, in the same write, so that it costs nobody a round trip. */
const TIDYING: FlightPlan = {
  steps: [{ text: 'select svc.tidy_session()', values: [] }],
  role: '',
  work: 'write',
  wants: 'value',
  relays: false,
  tidies: false,
  maxBytes: budgets.answerBytes,
}

/**
 * glibc gives the memory of each statement back to the system, and asks for it again for the next, until a block of this
 * size was freed: from then on it keeps up to twice as much. For a list of twenty rows that is a sixth of its time.
 */
const WARMING: FlightPlan = {
  ...TIDYING,
  steps: [{ text: `select pg_catalog.octet_length(pg_catalog.repeat(' ', ${512 * 1024}))`, values: [] }],
}

/**
 * One pipelined connection: flights leave in order and come back in order. The driver opens and ends it, and reads the
 * messages that are rare; its queue and its events cost more than a flight's own work.
 */
export class Connection {
  readonly #client: pg.Client
  readonly #options: ConnectOptions
  readonly #events: ConnectionEvents
  readonly #statements: StatementCache | undefined
  readonly #sent: Flight[] = []
  readonly #stream: Stream
  readonly #outbox = new Outbox()
  #isGathering = false
  #isHeld = false
  /** Until PostgreSQL has taken the cancel, which hits whatever is at work then, nothing else is sent here. */
  #isCancelling = false
  /** PostgreSQL refused a flight, which is no longer among the sent; the ReadyForQuery that follows is its. */
  #isRefusing = false
  /** Why nothing can be sent any more. */
  #lost: Error | undefined
  closed = false
  /** What has this connection to itself. `trial`: a read of which nobody knows whether it is short. */
  alone: Work | 'trial' | undefined
  /** How many ticks of the lane the flight now at work has seen. */
  age = 0
  /** How often the lane found it unused. */
  idleRounds = 0

  private constructor(client: pg.Client, options: ConnectOptions, prepared: boolean, events: ConnectionEvents) {
    this.#client = client
    this.#options = options
    this.#events = events
    this.#statements = prepared ? new StatementCache() : undefined
    const wire = (client as unknown as { connection: Wire }).connection
    this.#stream = wire.stream
    const hear = <T>(event: string, heard: (message: T) => void) => wire.removeAllListeners(event).on(event, heard)
    hear<PgError>('errorMessage', (error) => this.#refused(error))
    hear<{ fields: pg.FieldDef[] }>('rowDescription', ({ fields }) => {
      if (this.#sent[0]) this.#sent[0].fields = fields
    })
    let cause: Error | undefined
    client.on('error', (error) => {
      cause ??= error
    })
    client.once('end', () => this.#end(asConnectionError(cause ?? new Error('Connection terminated unexpectedly'))))
  }

  static async open(options: ConnectOptions, prepared: boolean, events: ConnectionEvents): Promise<Connection> {
    let connection: Connection | undefined
    const reception = {
      mayHold: (bytes: number) => connection?.mayHold(bytes) ?? true,
      take: (messages: Buffer, driver: (messages: Buffer) => void) =>
        connection ? connection.take(messages, driver) : driver(messages),
    }
    const client = await openConnection(options, reception)
    connection = new Connection(client, options, prepared, events)
    if (prepared) connection.send(new Flight(WARMING, () => {}))
    return connection
  }

  /** Flights that are on the wire, dropped ones included. */
  get load(): number {
    return this.#sent.length
  }
  get isFree(): boolean {
    return this.#sent.length === 0 && !this.#isHeld && !this.#isCancelling && !this.closed
  }
  get isHeldUp(): boolean {
    return this.#isCancelling || (this.age >= HELD_UP_TICKS && this.#sent.length > 0)
  }
  get isBusy(): boolean {
    return this.#sent.length > 0
  }
  /** What is at work. */
  get statement(): string {
    return this.#sent[0]?.statement ?? ''
  }

  /** Gives it to a transaction, until `release`. */
  hold(): void {
    this.#isHeld = true
    this.alone = 'write'
  }

  release(): void {
    this.#isHeld = false
    this.#freed()
  }

  send(flight: Flight): void {
    const { work, tidies } = flight.plan
    flight.connection = this
    this.idleRounds = 0
    if (work !== 'read') this.alone ??= work
    if (this.#sent.push(flight) === 1) this.age = 0
    if (this.#lost) process.nextTick(() => this.landed(flight, this.#lost))
    else this.#write(flight)
    if (tidies) this.send(new Flight(TIDYING, (_, error) => error && this.close()))
  }

  /** Those of one turn of the event loop leave with one system call. */
  #write(flight: Flight): void {
    flight.write(this.#outbox, this.#statements)
    if (this.#isGathering) return
    this.#isGathering = true
    setImmediate(() => {
      this.#isGathering = false
      const bytes = this.#outbox.take()
      if (this.#stream.writable) this.#stream.write(bytes)
    })
  }

  /** Whole messages, as PostgreSQL sent them. What comes with each flight is read here. */
  take(bytes: Buffer, driver: (messages: Buffer) => void): void {
    for (let at = 0, end = 0; at < bytes.length; at = end) {
      end = at + 1 + bytes.readUInt32BE(at + 1)
      const head = this.#sent[0]
      switch (bytes[at]) {
        case BIND_COMPLETE:
        case CLOSE_COMPLETE:
          break
        case PARSE_COMPLETE:
          if (head) head.parsedCount++
          break
        case DATA_ROW:
          if (head?.plan.takeRows) {
            while (bytes[end] === DATA_ROW) end += 1 + bytes.readUInt32BE(end + 1)
            this.#passRows(head, head.plan.takeRows, bytes.subarray(at, end))
          } else head?.row(bytes, at + HEADER, end)
          break
        case COMMAND_COMPLETE:
          head?.complete(bytes, at + HEADER, end - 1)
          break
        case EMPTY_QUERY:
          head?.complete(bytes, end, end)
          break
        case COPY_IN: // which swallows the Sync that was sent behind it
        case COPY_OUT:
          head?.end(badRequest('COPY from or to the client is not possible here'))
          this.destroy()
          return
        case READY_FOR_QUERY:
          if (this.#isRefusing) this.#isRefusing = false
          else if (head) this.landed(head, null)
          break
        default:
          driver(bytes.subarray(at, end))
      }
    }
  }

  /** PostgreSQL waits for whoever takes the rows, if he asks it to. */
  #passRows(flight: Flight, takeRows: NonNullable<FlightPlan['takeRows']>, rows: Buffer): void {
    const pause = flight.isOver ? undefined : takeRows(rows)
    if (!pause) return
    this.#stream.pause()
    void pause.finally(() => this.#stream.resume())
  }

  /** An ErrorResponse. What is left of the flight is skipped, up to its Sync. */
  #refused(error: PgError): void {
    const [head] = this.#sent
    if (!head) return // the connection is about to end
    this.#isRefusing = true
    error.statementIndex = head.relayed.length
    this.landed(head, error)
  }

  #end(cause: Error): void {
    this.#lost = cause
    this.closed = true
    for (const flight of this.#sent.slice()) this.landed(flight, cause)
    this.#events.onClosed(this)
  }

  /** All of its answer is here, or none will come. */
  landed(flight: Flight, error: PgError | null = null): void {
    if (this.#sent[0] === flight) this.#sent.shift()
    else this.#sent.splice(this.#sent.indexOf(flight), 1)
    if (this.age < HELD_UP_TICKS && flight.work === 'read' && !flight.isOver) this.#events.onQuick?.(flight.statement)
    this.age = 0
    if (error) this.#afterError(flight, error)
    flight.end(error)
    if (this.#sent.length === 0) this.#freed()
    else if (this.alone === undefined) this.#events.onFreed()
  }

  #freed(): void {
    if (this.#sent.length > 0) return
    if (this.closed) void this.close()
    if (this.#isHeld) return
    this.alone = undefined
    this.#events.onFreed()
  }

  /** After an error only the statements PostgreSQL confirmed are prepared on this connection. */
  #afterError(flight: Flight, error: PgError): void {
    const { parsed, parsedCount } = flight
    if (parsed) for (let i = parsedCount; i < parsed.length; i++) this.#statements?.forget(parsed[i] ?? '')
    if (isUnprepared(error) || isOutdatedPlan(error)) this.#statements?.forgetAll()
  }

  /** The reads that wait behind the one at work, to be flown elsewhere; what comes back for them here is dropped. */
  takeFollowers(): Flight[] {
    const followers: Flight[] = []
    for (let i = 1; i < this.#sent.length; i++) {
      const flight = this.#sent[i]
      if (flight && !flight.isOver) followers.push(flight.again())
    }
    return followers
  }

  /** Ends the read at work in PostgreSQL; answers the same one as slow work, if anybody still waits for it. */
  cutReadShort(): Flight | undefined {
    const [head] = this.#sent
    if (!head || head.isOver) return undefined
    const slow = head.again('slow')
    this.#cancel()
    return slow
  }

  /** The same for a write, which must not happen twice: it is flown again when PostgreSQL says that it did not happen. */
  cutWriteShort(): void {
    const [head] = this.#sent
    if (!head || head.isOver || head.isCutShort || this.#isHeld) return
    head.isCutShort = true
    this.#cancel()
  }

  /** What nobody wants any more need not hold a connection for long. */
  cancelUnwanted(): void {
    if (this.#sent[0]?.isUnwanted && this.age % CANCEL_EVERY_TICKS === 1) this.#cancel()
  }

  /** Nobody waits for this flight any more. What is at work is cancelled; what waits behind it is not looked at. */
  abandon(flight: Flight): void {
    flight.isLeft = true
    if (this.#sent[0] === flight) this.#cancel()
    else if (flight.work === 'read') flight.end(new AppError('request_timeout', 'request was aborted'))
  }

  /** Asked before a long message is put together. */
  mayHold(bytes: number): boolean {
    const [head] = this.#sent
    if (!head) return true
    if (head.bytes + bytes > head.plan.maxBytes) this.refuseAnswer()
    else if (arrivingBytes() + bytes > budgets.answersBytes) {
      this.refuseAnswer(unavailable('too many large responses at once'))
    }
    return !head.isOver
  }

  /** The answer that is arriving is more than may be held. */
  refuseAnswer(reason = new AppError('response_too_large', 'response too large')): void {
    const [head] = this.#sent
    if (!head || head.isOver) return
    head.found = []
    head.end(reason)
    this.#cancel()
  }

  #cancel(): void {
    if (this.#isCancelling) return
    this.#isCancelling = true
    const taken = (): void => {
      clearTimeout(patience)
      if (!this.#isCancelling) return
      this.#isCancelling = false
      this.#freed()
    }
    const patience = setTimeout(taken, CANCEL_PATIENCE_MS)
    cancelBackend(this.#options, this.#client).then(taken, taken)
  }

  /** Takes no more flights, and ends after the ones under way. */
  async close(): Promise<void> {
    this.closed = true
    if (this.#sent.length === 0) await this.#client.end().catch(() => {})
    else await once(this.#client, 'end')
  }

  /** Drops the socket without waiting; flights on it fail at once. */
  destroy(): void {
    this.closed = true
    this.#stream.destroy()
  }
}
