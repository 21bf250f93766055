import type { Position } from '../../db/changes/log.ts'
import type { Format } from './subscriber.ts'
import { around } from './told-change.ts'

// The format of the HTML standard, "Server-sent events". JSON text never holds a raw newline, so one data line is enough.

const RETRY_MS = 2_000

export const EVENT_STREAM: Format = {
  change: ({ position, action, table, record }) =>
    around(record, `id: ${position}\ndata: {"action":"${action}","table":${JSON.stringify(table)},"record":`, '}\n\n'),
  reset: (position) => Buffer.from(`event: reset\nid: ${position}\ndata: ${JSON.stringify({ position })}\n\n`),
  /** EventSource alone would come back with the old token and stay closed: the client opens a stream with a new one. */
  expiring: (expiresAt) => Buffer.from(`event: expiring\ndata: ${JSON.stringify({ expires_at: expiresAt })}\n\n`),
}

export const connectedFrame = (clientId: string, position: Position): string =>
  `event: connected\nid: ${position}\ndata: ${JSON.stringify({ clientId, position })}\nretry: ${RETRY_MS}\n\n`

export const errorFrame = (code: number, message: string): string =>
  `event: error\ndata: ${JSON.stringify({ code, message })}\n\n`

export const PING: Buffer = Buffer.from(': ping\n\n')
/** An id without data dispatches no event, it only moves the place from which the client would resume. */
export const pingAt = (position: Position): Buffer => Buffer.from(`: ping\nid: ${position}\n\n`)

/** Spread, so that the clients of a stopped server do not all come back in the same instant. */
export const goodbye = (): string => `retry: ${500 + Math.floor(Math.random() * 1_500)}\n\n`
