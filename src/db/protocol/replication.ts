import type { PgError } from '../pg-errors.ts'
import { type ConnectOptions, DriverSocket } from './driver.ts'
import { ReceiveBuffers } from './whole-messages.ts'

/** What a command of the replication protocol answers, in order. */
export type ReplicationEvent =
  | { kind: 'rows'; rows: (string | null)[][] }
  | { kind: 'begin' }
  | { kind: 'data'; bytes: Buffer }
  | { kind: 'end' }

/** Messages of PostgreSQL by their first byte (protocol 3.0, "Message Formats"). */
const [COMMAND_COMPLETE, DATA_ROW, ROW_DESCRIPTION, COPY_OUT, COPY_BOTH, COPY_IN, COPY_DATA, COPY_DONE, READY] =
  Buffer.from('CDTHWGdcZ')
const HEADER = 5
/** The socket is not read while more than this waits for its taker. */
const MOST_WAITING = 2 * 2 ** 20
/** PostgreSQL sends a base backup in messages of 32 KiB. */
const PIECE = 64 * 2 ** 10

/** Messages that arrive in parts are put together in one place: each is copied out of it before the next begins. */
class OnePlace extends ReceiveBuffers {
  readonly #place = Buffer.allocUnsafeSlow(PIECE)

  override set(bytes: number): Buffer {
    return bytes <= PIECE ? this.#place.subarray(0, bytes) : super.set(bytes)
  }

  override release(buffer: Buffer): void {
    if (buffer.buffer !== this.#place.buffer) super.release(buffer)
  }
}

/** One connection that speaks the replication protocol, or COPY: one command at a time, as simple queries. */
export class ReplicationConnection {
  #socket: DriverSocket | undefined
  #events: ReplicationEvent[] = []
  #waiting = 0
  #isPaused = false
  #isReady = true
  #rows: (string | null)[][] | undefined
  #failure: Error | undefined
  #lost: Error | undefined
  #wake: () => void = () => {}
  /** Buffers to read into again, while a command runs whose bytes are copied as they are taken. */
  #spare: Buffer[] | undefined

  private constructor() {}

  /** Needs a role with REPLICATION. Where pg_hba.conf has no line for replication, a line for the database is enough. */
  static async open(options: Omit<ConnectOptions, 'replication'>): Promise<ReplicationConnection> {
    try {
      return await ReplicationConnection.#open({ ...options, replication: 'true' })
    } catch (error) {
      if ((error as PgError).code !== '28000') throw error
      return ReplicationConnection.#open({ ...options, replication: 'database' })
    }
  }

  /** An ordinary connection, for COPY. */
  static openPlain(options: Omit<ConnectOptions, 'replication'>): Promise<ReplicationConnection> {
    return ReplicationConnection.#open(options)
  }

  static async #open(options: ConnectOptions): Promise<ReplicationConnection> {
    const connection = new ReplicationConnection()
    connection.#socket = await DriverSocket.open(options, new OnePlace(), {
      onMessages: (messages, passOn) => connection.#onMessages(messages, passOn),
      onError: (error) => {
        connection.#failure ??= asError(error)
      },
      onFields: () => {},
      mayHold: () => true,
      onEnd: (cause) => {
        connection.#lost ??= connection.#failure ?? cause
        connection.#wake()
      },
    })
    return connection
  }

  /** All rows of all result sets. */
  async rows(command: string): Promise<(string | null)[][]> {
    const rows: (string | null)[][] = []
    for await (const event of this.run(command)) if (event.kind === 'rows') rows.push(...event.rows)
    return rows
  }

  /**
   * Sends a command and passes on what it answers, as fast as it is taken. Left early, the connection is dropped.
   * `isCopied`: bytes are good until the next event is taken, so that gigabytes pass without leaving work to the collector.
   */
  async *run(command: string, { isCopied = false } = {}): AsyncGenerator<ReplicationEvent> {
    if (!this.#isReady) throw new Error('a replication command is under way')
    this.#isReady = false
    this.#spare = isCopied ? [] : undefined
    this.#failure = undefined
    this.#send('Q', Buffer.from(`${command}\0`))
    let isWhole = false
    try {
      for (;;) {
        const event = this.#events.shift()
        if (event) {
          if (event.kind === 'data') this.#taken(event.bytes.length)
          yield event
          if (event.kind === 'data' && event.bytes.buffer.byteLength === PIECE) this.#spare?.push(event.bytes)
        } else if (this.#lost) throw this.#lost
        else if (this.#isReady) {
          isWhole = true
          if (this.#failure) throw this.#failure
          return
        } else await this.#more()
      }
    } finally {
      if (!isWhole) this.destroy()
    }
  }

  /** COPY … FROM STDIN with these bytes, sent as fast as they are taken. */
  async copyIn(command: string, bytes: AsyncIterable<Buffer>): Promise<void> {
    const events = this.run(command)
    const { done } = await events.next()
    if (done) throw new Error('PostgreSQL takes no copy')
    try {
      for await (const part of bytes) {
        // Of a copy that has failed meanwhile the rest is not wanted.
        if (this.#isReady || this.#lost) break
        this.copyData(part)
        await this.#socket?.drained()
      }
    } catch (error) {
      this.destroy()
      throw error
    }
    if (!this.#isReady && !this.#lost) this.#send('c', Buffer.alloc(0))
    while (!(await events.next()).done);
  }

  /** Bytes for PostgreSQL while a copy to it is under way. */
  copyData(bytes: Buffer): void {
    this.#send('d', bytes)
  }

  destroy(): void {
    this.#socket?.destroy()
  }

  async end(): Promise<void> {
    await this.#socket?.end()
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve
    })
  }

  #send(type: string, body: Buffer): void {
    const message = Buffer.allocUnsafe(HEADER + body.length)
    message.write(type, 0, 'latin1')
    message.writeUInt32BE(4 + body.length, 1)
    body.copy(message, HEADER)
    this.#socket?.write(message)
  }

  #taken(bytes: number): void {
    this.#waiting -= bytes
    if (!this.#isPaused || this.#waiting > MOST_WAITING / 2) return
    this.#isPaused = false
    this.#socket?.resume()
  }

  /** Copied, because the buffer is read into again. */
  #copy(bytes: Buffer, from: number, to: number): Buffer {
    if (!this.#spare || to - from > PIECE) return Buffer.from(bytes.subarray(from, to))
    const used = this.#spare.pop()
    const place = used ? Buffer.from(used.buffer) : Buffer.allocUnsafeSlow(PIECE)
    bytes.copy(place, 0, from, to)
    return place.subarray(0, to - from)
  }

  #onMessages(bytes: Buffer, passOn: (messages: Buffer) => void): void {
    for (let at = 0, end = 0; at < bytes.length; at = end) {
      end = at + 1 + bytes.readUInt32BE(at + 1)
      switch (bytes[at]) {
        case COPY_DATA: {
          const data = this.#copy(bytes, at + HEADER, end)
          this.#waiting += data.length
          this.#events.push({ kind: 'data', bytes: data })
          break
        }
        case ROW_DESCRIPTION:
          this.#rows = []
          break
        case DATA_ROW:
          this.#rows?.push(cellsOf(bytes.subarray(at + HEADER, end)))
          break
        case COMMAND_COMPLETE:
          if (this.#rows) this.#events.push({ kind: 'rows', rows: this.#rows })
          this.#rows = undefined
          break
        case COPY_OUT:
        case COPY_BOTH:
        case COPY_IN:
          this.#events.push({ kind: 'begin' })
          break
        case COPY_DONE:
          this.#events.push({ kind: 'end' })
          break
        case READY:
          this.#isReady = true
          break
        default:
          passOn(bytes.subarray(at, end))
      }
    }
    if (this.#waiting > MOST_WAITING && !this.#isPaused) {
      this.#isPaused = true
      this.#socket?.pause()
    }
    this.#wake()
  }
}

/** A DataRow: a count, then a length (-1 for NULL) and the text of each cell. */
function cellsOf(row: Buffer): (string | null)[] {
  const cells: (string | null)[] = []
  for (let at = 2, left = row.readUInt16BE(0); left > 0; left--) {
    const length = row.readInt32BE(at)
    at += 4
    cells.push(length < 0 ? null : row.toString('utf8', at, at + length))
    at += Math.max(length, 0)
  }
  return cells
}

const asError = (error: PgError): Error => (error instanceof Error ? error : new Error(String(error)))
