import type { ServerResponse } from 'node:http'
import type { Exchange } from './exchange.ts'
import { putHeaders } from './headers.ts'
import type { Reply } from './route.ts'

/** How long a client that still sends is listened to after its answer, so that it gets to read it. */
const LINGER_MS = 1000
const LINGER_BYTES = 16 * 1024 * 1024

/** A client that takes nothing for this long is gone, or reads on purpose slower than we can afford. */
const STALLED_MS = 120_000

/** Only for answers that do not leave at once: a timer on every socket would cost every request. */
export const closeWhenStalled = (response: ServerResponse): void => void response.socket?.setTimeout(STALLED_MS)

/** One writeHead from a flat list and one end: node joins them into a single write. */
export function writeReply(exchange: Exchange, reply: Reply, draining: boolean): void {
  const { response } = exchange
  const flat = exchange.headers.slice()
  const content = contentOf(reply)
  let encoding: BufferEncoding = 'utf8'
  if (content !== undefined) {
    const bytes = Buffer.byteLength(content)
    // As many bytes as characters means ASCII, which node writes faster as latin1.
    if (bytes === content.length) encoding = 'latin1'
    if (reply.content === undefined) flat.push('Content-Type', 'application/json')
    flat.push('Content-Length', String(bytes))
  } else if (reply.status !== 204 && reply.status !== 304) flat.push('Content-Length', '0')
  if (reply.headers) putHeaders(flat, reply.headers)
  const lingers = exchange.leavesBodyUnread
  if (draining || lingers) flat.push('Connection', 'close')
  response.writeHead(reply.status, flat)
  if (lingers) linger(exchange, content)
  else response.end(content, encoding)
  if (response.writableLength > 0) closeWhenStalled(response)
}

function contentOf(reply: Reply): string | Buffer | undefined {
  if (reply.status === 204 || reply.status === 304) return undefined
  if (reply.json !== undefined) return reply.json
  if (reply.content !== undefined) return reply.content
  return reply.body === undefined ? undefined : JSON.stringify(reply.body)
}

/**
 * The rest of the body is not wanted. Closing at once would reset the connection under the answer (RFC 9112 §9.6),
 * so what still comes is thrown away for a moment, and then the connection ends.
 */
function linger({ request, response }: Exchange, content: string | Buffer | undefined): void {
  if (content === undefined || request.method === 'HEAD') response.flushHeaders()
  else response.write(content)
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
