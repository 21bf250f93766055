import type { ServerResponse } from 'node:http'
import { AppError } from '../core/errors.ts'
import type { Timing } from '../core/timing.ts'
import type { Exchange } from './exchange.ts'
import type { JsonText, Reply } from './route.ts'
import { type FlatHeaders, headerLines, putHeaders } from './wire/headers.ts'
import type { PlainHeads } from './wire/node-internals.ts'

/** How long the body of a client that still sends is read after the response, so that the client can read the response. */
const LINGER_MS = 1000
const LINGER_BYTES = 16 * 1024 * 1024

/** A client that reads nothing for this long is disconnected. */
const STALLED_MS = 120_000

/** Only for responses that are not sent at once, because a timer on every socket would slow every request. */
export const closeWhenStalled = (response: ServerResponse): void => void response.socket?.setTimeout(STALLED_MS)

const PIECE = 128 * 1024
const LARGE = 8 * PIECE

/** Returns the length of the content in bytes. */
export function writeReply(
  exchange: Exchange,
  reply: Reply,
  draining: boolean,
  maxBytes: number,
  heads: PlainHeads,
): number {
  const { response } = exchange
  const content = contentOf(reply)
  const bytes = content === undefined ? 0 : bytesOf(content)
  if (bytes > maxBytes) throw new AppError('response_too_large', 'response too large')
  if (exchange.timing) pushTiming(exchange.own, exchange.timing)
  const lingers = exchange.leavesBodyUnread
  const isText = typeof content === 'string'
  // Equal numbers of bytes and characters mean ASCII, which node writes faster as latin1.
  const isAscii = isText && bytes === content.length
  const isPlain = !reply.headers && !draining && !lingers && !exchange.isRawTaken && heads.accepts(response)
  const isWhole = isPlain && isText && isAscii && bytes <= LARGE && exchange.request.method !== 'HEAD'
  if (isPlain) heads.set(response, reply.status, plainLines(exchange, reply, bytes), isWhole ? content : '')
  else response.writeHead(reply.status, flatHead(exchange, reply, bytes, draining || lingers))
  const encoding = isAscii ? 'latin1' : 'utf8'
  if (lingers) linger(exchange, content)
  else if (isWhole) response.end()
  else if (isText && bytes > LARGE) writeInPieces(response, content, encoding)
  else if (isPieces(content)) writeAll(response, content)
  else response.end(content, encoding)
  if (response.writableLength > 0) closeWhenStalled(response)
  return bytes
}

function pushTiming(own: FlatHeaders, timing: Timing): void {
  timing.mark('reply')
  own.push('Server-Timing', String(timing))
}

function writeAll(response: ServerResponse, pieces: readonly Buffer[]): void {
  response.cork()
  for (const piece of pieces) response.write(piece)
  response.end()
}

/** Node encodes a whole string before it sends any of it, so a large one is written as fast as the client reads. */
function writeInPieces(response: ServerResponse, content: string, encoding: BufferEncoding): void {
  let at = 0
  const writeOn = (): void => {
    while (at < content.length) {
      const piece = content.slice(at, endOfPiece(content, at))
      at += piece.length
      if (!response.write(piece, encoding) && at < content.length) {
        response.once('drain', writeOn)
        return
      }
    }
    response.end()
  }
  writeOn()
}

/** Never splits a surrogate pair. */
function endOfPiece(content: string, start: number): number {
  const end = Math.min(start + PIECE, content.length)
  const last = content.charCodeAt(end - 1)
  return last >= 0xd800 && last <= 0xdbff && end < content.length ? end - 1 : end
}

const hasNoBody = (status: number): boolean => status === 204 || status === 304

function plainLines({ common, own, requestId }: Exchange, reply: Reply, bytes: number): string {
  const lines = `${common.lines}${own.length === 0 ? '' : headerLines(own)}X-Request-Id: ${requestId}\r\n`
  if (hasNoBody(reply.status)) return lines
  const type = reply.content === undefined && bytes > 0 ? 'Content-Type: application/json\r\n' : ''
  return `${lines}${type}Content-Length: ${bytes}\r\n`
}

function flatHead(exchange: Exchange, reply: Reply, bytes: number, closes: boolean): FlatHeaders {
  const flat = exchange.flatHeaders
  if (!hasNoBody(reply.status)) {
    if (reply.content === undefined && bytes > 0) flat.push('Content-Type', 'application/json')
    flat.push('Content-Length', String(bytes))
  }
  if (reply.headers) putHeaders(flat, reply.headers)
  if (closes) flat.push('Connection', 'close')
  return flat
}

const isPieces = (content: JsonText | undefined): content is readonly Buffer[] => Array.isArray(content)

const bytesOf = (content: JsonText): number =>
  isPieces(content) ? content.reduce((sum, { length }) => sum + length, 0) : Buffer.byteLength(content)

function contentOf(reply: Reply): JsonText | undefined {
  if (hasNoBody(reply.status)) return undefined
  if (reply.json !== undefined) return reply.json
  if (reply.content !== undefined) return reply.content
  return reply.body === undefined ? undefined : JSON.stringify(reply.body)
}

/**
 * Discards the rest of the request body for a moment and then closes the connection. Closing at once would reset it
 * before the client has read the response (RFC 9112 §9.6).
 */
function linger({ request, response }: Exchange, content: JsonText | undefined): void {
  if (content === undefined || request.method === 'HEAD') response.flushHeaders()
  else for (const piece of isPieces(content) ? content : [content]) response.write(piece)
  const end = (): void => {
    clearTimeout(timer)
    response.end(() => request.socket.destroy())
  }
  const timer = setTimeout(end, LINGER_MS)
  let discarded = 0
  request.on('data', (chunk: Buffer) => {
    discarded += chunk.length
    if (discarded > LINGER_BYTES) end()
  })
  request.on('error', end).once('end', end).once('close', end)
  request.resume()
}
