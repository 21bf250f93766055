import type pg from 'pg'
import { budgets } from '../../core/budgets.ts'
import { sleep } from '../../core/clock.ts'
import { AppError, badRequest, unavailable } from '../../core/errors.ts'
import { isOutdatedPlan, isUnprepared, type PgError } from '../pg-errors.ts'
import { type ConnectOptions, DriverSocket, type MessageHandlers } from './driver.ts'
import type { Flight } from './flight.ts'
import { Outbox } from './outbox.ts'
import { StatementCache, type StatementNames } from './statements.ts'
import type { ReceiveBuffers } from './whole-messages.ts'

export type ConnectionEvents = {
  /** A flight came back, or a cancel was taken: there may be room. */
  onRoom(): void
  onClosed(): void
}

export type ConnectionOptions = {
  connect: ConnectOptions
  receiving: ReceiveBuffers
  /** Without them nothing is prepared. */
  names: StatementNames | undefined
}

/** A cancel that came before its statement was begun is lost, and repeated; but PostgreSQL starts a process for each. */
const CANCEL_EVERY_MS = 100
/** Where PostgreSQL does not take the cancel, the connection itself may still be good. */
const CANCEL_TIMEOUT_MS = 10_000

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

/** One pipelined connection: flights leave in order and come back in order. */
export class Connection {
  readonly #events: ConnectionEvents
  readonly #receiving: ReceiveBuffers
  readonly #statements: StatementCache | undefined
  readonly #sent: Flight[] = []
  readonly #outbox = new Outbox()
  readonly #ended: Promise<void>
  #socket: DriverSocket | undefined
  #isGathering = false
  /** Until PostgreSQL has taken the cancel, which hits whatever is at work then, nothing else is sent here. */
  #isCancelling = false
  /** PostgreSQL refused a flight, which is no longer among the sent; the ReadyForQuery that follows is its. */
  #isRefusing = false
  #isClosing = false
  /** Why nothing can be sent any more. */
  #lost: Error | undefined
  #onEnded: () => void = () => {}

  private constructor({ receiving, names }: ConnectionOptions, events: ConnectionEvents) {
    this.#events = events
    this.#receiving = receiving
    this.#statements = names && new StatementCache(names)
    this.#ended = new Promise((resolve) => {
      this.#onEnded = resolve
    })
  }

  static async open(options: ConnectionOptions, events: ConnectionEvents): Promise<Connection> {
    const connection = new Connection(options, events)
    connection.#socket = await DriverSocket.open(options.connect, options.receiving, connection.#handlers())
    return connection
  }

  /** The process number of its backend, where that is a process of this machine. */
  get localBackend(): number | undefined {
    return this.#socket?.localBackend
  }

  /** Nothing is on the wire, and something may be sent. */
  get isIdle(): boolean {
    return this.#sent.length === 0 && !this.#isCancelling && !this.#isClosing
  }

  send(flight: Flight): void {
    this.#sent.push(flight)
    if (this.#lost) process.nextTick(() => this.#done(flight, this.#lost ?? null))
    else this.#write(flight)
  }

  /** Ends the flight in PostgreSQL, if it is at work. The cancel may hit a later flight on the connection instead. */
  async cancel(flight: Flight): Promise<void> {
    if (this.#isCancelling || this.#sent[0] !== flight) return
    this.#isCancelling = true
    while (this.#sent[0] === flight) {
      await Promise.race([this.#socket?.cancel(), sleep(CANCEL_TIMEOUT_MS)])
      if (this.#sent[0] === flight) await sleep(CANCEL_EVERY_MS)
    }
    this.#isCancelling = false
    this.#events.onRoom()
  }

  /** Takes no more flights, and ends after the ones under way. */
  async close(): Promise<void> {
    this.#isClosing = true
    if (this.#sent.length === 0) await this.#socket?.end()
    else await this.#ended
  }

  /** Drops the socket without waiting; flights on it fail at once. */
  destroy(): void {
    this.#isClosing = true
    this.#socket?.destroy()
  }

  #handlers(): MessageHandlers {
    return {
      onMessages: (messages, passOn) => this.#onMessages(messages, passOn),
      onError: (error) => this.#onError(error),
      onFields: (fields: pg.FieldDef[]) => this.#sent[0]?.fields(fields),
      mayHold: (bytes) => this.#mayHold(bytes),
      onEnd: (cause) => this.#onEnd(cause),
    }
  }

  /** Flights of one turn of the event loop are sent with one system call. */
  #write(flight: Flight): void {
    flight.write(this.#outbox, this.#statements)
    if (this.#isGathering) return
    this.#isGathering = true
    setImmediate(() => {
      this.#isGathering = false
      this.#socket?.write(this.#outbox.take())
    })
  }

  /** What comes with each flight is read here. */
  #onMessages(bytes: Buffer, passOn: (messages: Buffer) => void): void {
    for (let at = 0, end = 0; at < bytes.length; at = end) {
      end = at + 1 + bytes.readUInt32BE(at + 1)
      const head = this.#sent[0]
      switch (bytes[at]) {
        case BIND_COMPLETE:
        case CLOSE_COMPLETE:
          break
        case PARSE_COMPLETE:
          head?.parseComplete()
          break
        case DATA_ROW:
          if (head?.plan.takeRows) {
            while (bytes[end] === DATA_ROW) end += 1 + bytes.readUInt32BE(end + 1)
            this.#passRows(head, bytes.subarray(at, end))
          } else if (head && !head.isOver) {
            if (head.hasRoomFor(end - at)) head.row(bytes, at + HEADER, end)
            else this.#refuseAnswer(head)
          }
          break
        case COMMAND_COMPLETE:
          head?.complete(bytes, at + HEADER, end - 1)
          break
        case EMPTY_QUERY:
          head?.complete(bytes, end, end)
          break
        case COPY_IN: // which discards the Sync that was sent after it
        case COPY_OUT:
          head?.end(badRequest('COPY from or to the client is not possible here'))
          this.destroy()
          return
        case READY_FOR_QUERY:
          if (this.#isRefusing) this.#isRefusing = false
          else if (head) this.#done(head, null)
          break
        default:
          passOn(bytes.subarray(at, end))
      }
    }
  }

  /** PostgreSQL waits for the taker of the rows where that wants it to. */
  #passRows(flight: Flight, rows: Buffer): void {
    const pause = flight.isOver ? undefined : flight.plan.takeRows?.(rows)
    if (!pause) return
    this.#socket?.pause()
    void pause.finally(() => this.#socket?.resume())
  }

  /** An ErrorResponse. What is left of the flight is skipped, up to its Sync. */
  #onError(error: PgError): void {
    const [head] = this.#sent
    if (!head) return // the connection is about to end
    this.#isRefusing = true
    error.statementIndex = head.values.length
    this.#done(head, error)
  }

  #onEnd(cause: Error): void {
    this.#lost = cause
    this.#isClosing = true
    for (const flight of this.#sent.slice()) this.#done(flight, cause)
    this.#onEnded()
    this.#events.onClosed()
  }

  #done(flight: Flight, error: PgError | null): void {
    if (this.#sent[0] === flight) this.#sent.shift()
    else this.#sent.splice(this.#sent.indexOf(flight), 1)
    if (error) this.#afterError(flight, error)
    flight.end(error)
    if (this.#isClosing && this.#sent.length === 0) void this.#socket?.end()
    this.#events.onRoom()
  }

  /** After an error only the statements PostgreSQL confirmed are prepared on this connection. */
  #afterError(flight: Flight, error: PgError): void {
    for (const name of flight.unparsed) this.#statements?.forget(name)
    if (isUnprepared(error) || isOutdatedPlan(error)) this.#statements?.forgetAll()
  }

  #mayHold(bytes: number): boolean {
    const [head] = this.#sent
    if (!head) return true
    if (!head.hasRoomFor(bytes)) this.#refuseAnswer(head)
    else if (this.#receiving.arriving + bytes > budgets.queryResultBytes) {
      this.#refuseAnswer(head, unavailable('too many large responses at once'))
    }
    return !head.isOver
  }

  /** The answer that is arriving is more than may be held. */
  #refuseAnswer(head: Flight, reason = new AppError('response_too_large', 'response too large')): void {
    if (head.isOver) return
    head.end(reason)
    void this.cancel(head)
  }
}
