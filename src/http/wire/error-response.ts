import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { AppError, databaseUnavailable } from '../../core/errors.ts'
import { type FlatHeaders, flatOf, headerLines } from './headers.ts'

/** Any thrown value as a client may see it: unexpected errors become `internal error`. */
export const toAppError = (thrown: unknown): AppError =>
  thrown instanceof AppError ? thrown : new AppError('internal', 'internal error', { cause: thrown })

/** `reference`: the page of which each code has a paragraph. */
export function bodyFor(method: string, error: AppError, reference: string | undefined): unknown {
  // A request that only reads has no outcome, whatever the server wrote on its behalf.
  const hasNoOutcome = (method === 'GET' || method === 'HEAD') && error.data && Object.hasOwn(error.data, 'outcome')
  const body = (hasNoOutcome ? databaseUnavailable() : error).toJSON()
  return reference === undefined ? body : { ...body, doc_url: `${reference}#${body.error}` }
}

/** The stack of an unexpected error, for the log. */
export const stackOf = (thrown: unknown): string | undefined =>
  thrown instanceof Error && !(thrown instanceof AppError) ? thrown.stack : undefined

/** The messages of an error and its causes, for the log. */
export function causesOf(thrown: unknown): string {
  const messages: string[] = []
  let error = thrown
  for (let depth = 0; error instanceof Error && depth < 5; depth++) {
    messages.push(`${error.name}: ${error.message}`)
    error = error.cause
  }
  if (error !== undefined && !(error instanceof Error)) messages.push(String(error))
  return messages.join(' ← ').slice(0, 2000)
}

/** The API's error for an error of node's HTTP parser. */
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

/** Writes an error response to a socket that has no request, and closes it. */
export function refuseSocket(socket: Socket, error: AppError, headers: FlatHeaders): void {
  const body = JSON.stringify(error)
  const length = String(Buffer.byteLength(body))
  const own = flatOf({ 'Content-Type': 'application/json', 'Content-Length': length, Connection: 'close' })
  const lines = headerLines([...headers, ...own])
  socket.on('error', () => socket.destroy())
  socket.end(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ''}\r\n${lines}\r\n${body}`)
  // Closing at once would reset the connection while the client still sends, before it has read the response.
  setTimeout(() => socket.destroy(), 1000).unref()
}
