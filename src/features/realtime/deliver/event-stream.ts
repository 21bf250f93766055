import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { AppError } from '../../../core/errors.ts'
import type { Position } from '../../../db/changes/position.ts'
import { around } from '../visibility/encoded-change.ts'
import { type ClientOptions, type FrameFormat, RealtimeClient } from './client.ts'

// The format of the HTML standard, "Server-sent events". JSON text never holds a raw newline, so one data line is enough.

export const STREAM_HEADERS = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-cache',
  'X-Accel-Buffering': 'no',
}
const RETRY_MS = 2_000
const FLUSH_GRACE_MS = 2_000

const event = (name: string, data: object, more = ''): string =>
  `event: ${name}\n${more}data: ${JSON.stringify(data)}\n\n`

const EVENT_STREAM: FrameFormat = {
  change: ({ position, action, table, record }) =>
    action === 'truncate'
      ? EVENT_STREAM.reset(position)
      : around(
          record,
          `id: ${position}\ndata: {"action":"${action}","table":${JSON.stringify(table)},"record":`,
          '}\n\n',
        ),
  reset: (position) => Buffer.from(event('reset', { position }, `id: ${position}\n`)),
  /** EventSource alone would come back with the old token and stay closed: the client opens a stream with a new one. */
  expiring: (expiresAt) => Buffer.from(event('expiring', { expires_at: expiresAt })),
}

const END_OF_EVENT = Buffer.from('\n\n')
const PING = Buffer.from(': ping\n\n')
/** An id without data dispatches no event, it only moves the position from which the client would resume. */
const pingAt = (position: Position): Buffer => Buffer.from(`: ping\nid: ${position}\n\n`)

/** A client that reads server-sent events. */
export class EventStream extends RealtimeClient {
  readonly #response: ServerResponse
  #ended = false

  constructor(response: ServerResponse, options: ClientOptions) {
    super(response, EVENT_STREAM, options)
    this.#response = response
  }

  override get closed(): boolean {
    return this.#ended || this.#response.destroyed
  }

  begin(position: Position): void {
    const data = { clientId: randomUUID(), position }
    this.#begin(event('connected', data, `id: ${position}\nretry: ${RETRY_MS}\n`))
  }

  /** The stream of a live list says nothing of itself. */
  beginQuietly(): void {
    this.#begin(`retry: ${RETRY_MS}\n\n`)
  }

  #begin(text: string): void {
    const response = this.#response
    response.socket?.setTimeout(0).setNoDelay(true)
    // The body ends with the connection, so events need no chunk around them and are the same bytes for all.
    response.useChunkedEncodingByDefault = false
    response.writeHead(200, STREAM_HEADERS)
    response.write(text)
  }

  /** JSON without the brace that opens it. */
  sendEvent(name: string, position: Position | undefined, fields: Buffer): void {
    const id = position === undefined ? '' : `id: ${position}\n`
    this.send(Buffer.concat([Buffer.from(`event: ${name}\n${id}data: {`), fields, END_OF_EVENT]))
  }

  override beat(position: Position | undefined): void {
    if (position === undefined) this.write(PING)
    else this.send(pingAt(position))
  }

  override drop(): void {
    this.#ended = true
    this.#response.destroy()
  }

  override fail(error: AppError): void {
    this.#end(event('error', error.toJSON()))
  }

  /** Spread, so that the clients of a stopped server do not all come back in the same instant. */
  override leave(): void {
    this.#end(`retry: ${500 + Math.floor(Math.random() * 1_500)}\n\n`)
  }

  #end(lastWords: string): void {
    if (this.closed) return
    this.#ended = true
    const response = this.#response
    response.end(lastWords)
    const timer = setTimeout(() => response.destroy(), FLUSH_GRACE_MS)
    response.once('close', () => clearTimeout(timer))
  }
}
