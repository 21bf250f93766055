import type { IncomingMessage } from 'node:http'
import { budgets } from '../../../core/budgets.ts'
import { AppError, badRequest } from '../../../core/errors.ts'

type ArrivalPace = { readonly graceMs: number; readonly bytesPerSecond: number }

const tooLarge = (): AppError => new AppError('payload_too_large', 'request body too large')

/** The bytes of a request body as they arrive, with back-pressure. A client slower than `pace` is refused. */
export async function* bodyBytes(
  request: IncomingMessage,
  maxBytes: number,
  { pace = budgets.incomingPace, signal }: { pace?: ArrivalPace; signal?: AbortSignal } = {},
): AsyncGenerator<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge()
  const { graceMs, bytesPerSecond } = pace
  const chunks = request[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  let bytes = 0
  let waitedMs = 0
  for (;;) {
    const since = performance.now()
    const remainingMs = graceMs + (bytes / bytesPerSecond) * 1000 - waitedMs
    const { value, done } = await withTimeout(Math.max(0, remainingMs), chunks.next(), signal)
    waitedMs += performance.now() - since
    if (done) break
    bytes += value.length
    if (bytes > maxBytes) throw tooLarge()
    yield value
  }
  if (!request.complete) throw badRequest('request body was cut off', 'invalid_body')
}

/** Text in UTF-8, whose pieces may end within a character. */
export async function* textOf(pieces: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decode = utf8Decoder()
  for await (const piece of pieces) yield decode(piece)
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

function withTimeout<T>(ms: number, promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal?.reason)
    if (signal?.aborted) onAbort()
    signal?.addEventListener('abort', onAbort)
    const timer = setTimeout(() => reject(new AppError('request_timeout', 'request timeout')), ms)
    promise
      .then(resolve, () => reject(badRequest('request body was cut off', 'invalid_body')))
      .finally(() => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
      })
  })
}
