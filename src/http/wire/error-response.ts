import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { AppError } from '../../core/errors.ts'
import { type FlatHeaders, headerLines } from './headers.ts'

/** Anything thrown, as a client may see it. What we did not mean to say becomes `internal error`. */
export const toAppError = (thrown: unknown): AppError =>
  thrown instanceof AppError ? thrown : new AppError('internal', 'internal error', { cause: thrown })

/** Where an error comes from that nobody meant to throw, for the log. */
export const stackOf = (thrown: unknown): string | undefined =>
  thrown instanceof Error && !(thrown instanceof AppError) ? thrown.stack : undefined

/** Messages of an error and its causes, for the log. */
export function causesOf(thrown: unknown): string {
  const said: string[] = []
  let error = thrown
  for (let depth = 0; error instanceof Error && depth < 5; depth++) {
    said.push(`${error.name}: ${error.message}`)
    error = error.cause
  }
  if (error !== undefined && !(error instanceof Error)) said.push(String(error))
  return said.join(' ← ').slice(0, 2000)
}

/** What node's parser refuses, in our words. */
export function parserError(code: string | undefined): AppError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new AppError('headers_too_large', 'request header fields too large')
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new AppError('payload_too_large', 'request body too large')
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new AppError('request_timeout', 'request timeout')
    default:
      return new AppError('bad_request', 'malformed request')
  }
}

/** An answer for a socket that has no request: written by hand, then closed without cutting it off. */
export function refuseSocket(socket: Socket, error: AppError, headers: FlatHeaders): void {
  const body = JSON.stringify(error)
  const own = [
    'Content-Type',
    'application/json',
    'Content-Length',
    String(Buffer.byteLength(body)),
    'Connection',
    'close',
  ]
  const lines = headerLines([...headers, ...own])
  socket.on('error', () => socket.destroy())
  socket.end(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ''}\r\n${lines}\r\n${body}`)
  // Closing at once would reset the connection while the client still sends, and it might never see the answer.
  setTimeout(() => socket.destroy(), 1000).unref()
}
