import type { ServerResponse } from 'node:http'
import { AppError } from '../core/errors.ts'
import type { Timing } from '../core/timing.ts'
import type { JsonText, Reply } from './route.ts'
import type { Exchange } from './exchange.ts'
import { type FlatHeaders, headerLines, putHeaders } from './wire/headers.ts'
import type { PlainHeads } from './wire/node-internals.ts'

/** How long a client that still sends is listened to after its answer, so that it gets to read it. */
const LINGER_MS = 1000
const LINGER_BYTES = 16 * 1024 * 1024

/** A client that takes nothing for this long is gone, or reads on purpose slower than we can afford. */
const STALLED_MS = 120_000

/** Only for answers that do not leave at once: a timer on every socket would cost every request. */
export const closeWhenStalled = (response: ServerResponse): void => void response.socket?.setTimeout(STALLED_MS)

const PIECE = 128 * 1024
const LARGE = 8 * PIECE

/** Returns the bytes of the content. */
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
  // As many bytes as characters means ASCII, which node writes faster as latin1.
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

/** Node copies a text into bytes before it sends any of it: of a large one it gets as much as the client takes. */
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

/** Not between the halves of a surrogate pair, each of which alone is no character. */
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
 * The rest of the body is not wanted. Closing at once would reset the connection under the answer (RFC 9112 §9.6),
 * so what still comes is thrown away for a moment, and then the connection ends.
 */
function linger({ request, response }: Exchange, content: JsonText | undefined): void {
  if (content === undefined || request.method === 'HEAD') response.flushHeaders()
  else for (const piece of isPieces(content) ? content : [content]) response.write(piece)
  const end = (): void => {
    clearTimeout(timer)
    response.end(() => request.socket.destroy())
  }
  const timer = setTimeout(end, LINGER_MS)
  let thrownAway = 0
  request.on('data', (chunk: Buffer) => {
    thrownAway += chunk.length
    if (thrownAway > LINGER_BYTES) end()
  })
  request.on('error', end).once('end', end).once('close', end)
  request.resume()
}
