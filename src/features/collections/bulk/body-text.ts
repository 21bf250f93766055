import type { IncomingMessage } from 'node:http'
import { budgets } from '../../../core/budgets.ts'
import { AppError, badRequest } from '../../../core/errors.ts'

type ArrivalPace = { readonly graceMs: number; readonly bytesPerSecond: number }

const tooLarge = (): AppError => new AppError('payload_too_large', 'request body too large')

/**
 * Streams the text of a request body with back-pressure. A client slower than `budgets.arrivalPace` is refused, because a
 * transaction stays open while the body arrives.
 */
export async function* bodyText(
  request: IncomingMessage,
  maxBytes: number,
  { graceMs, bytesPerSecond } = budgets.incomingPace as ArrivalPace,
  onChunk: (chunk: Buffer) => void = () => {},
): AsyncGenerator<string> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge()
  const decode = utf8Decoder()
  const chunks = request[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  let bytes = 0
  let waitedMs = 0
  for (;;) {
    const since = performance.now()
    const remainingMs = graceMs + (bytes / bytesPerSecond) * 1000 - waitedMs
    const { value, done } = await withTimeout(Math.max(0, remainingMs), chunks.next())
    waitedMs += performance.now() - since
    if (done) break
    bytes += value.length
    if (bytes > maxBytes) throw tooLarge()
    onChunk(value)
    yield decode(value)
  }
  if (!request.complete) throw badRequest('request body was cut off', 'invalid_body')
  decode()
}

/** Decodes piece by piece. Call it without a piece at the end. */
function utf8Decoder(): (piece?: Buffer) => string {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  return (piece) => {
    try {
      return piece ? decoder.decode(piece, { stream: true }) : decoder.decode()
    } catch {
      throw badRequest('request body must be UTF-8', 'invalid_body')
    }
  }
}

function withTimeout<T>(ms: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new AppError('request_timeout', 'request timeout')), ms)
    promise
      .then(resolve, () => reject(badRequest('request body was cut off', 'invalid_body')))
      .finally(() => clearTimeout(timer))
  })
}
