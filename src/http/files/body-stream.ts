import type { IncomingMessage } from 'node:http'
import { type Readable, Transform } from 'node:stream'
import { type AppError, badRequest } from '../../core/errors.ts'

type BodyOptions = {
  maxBytes: number
  /** The error for a body that is longer. */
  tooLarge: () => AppError
  /** Aborting ends the stream with the signal's reason. */
  signal: AbortSignal
}

/** A request's body as a stream. When it fails the connection stays, so that the client gets the answer. */
export function bodyStream(request: IncomingMessage, { maxBytes, tooLarge, signal }: BodyOptions): Readable {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge()
  let received = 0
  const body = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      received += chunk.length
      if (received > maxBytes) done(tooLarge())
      else done(null, chunk)
    },
  })
  const fail = (error: unknown): void => void body.destroy(error instanceof Error ? error : undefined)
  const onAbort = (): void => fail(signal.reason)
  const onGone = (): void => {
    if (!request.readableEnded) fail(badRequest('request body was cut off', 'invalid_body'))
  }
  signal.addEventListener('abort', onAbort, { once: true })
  request.on('error', onGone).on('close', onGone)
  body.once('close', () => {
    signal.removeEventListener('abort', onAbort)
    request.unpipe(body).off('error', onGone).off('close', onGone).pause()
    // A body that failed is read no further; errors of the connection are no news.
    request.on('error', () => {})
  })
  // Who reads the body hears of its error; before that there is no listener.
  body.on('error', () => {})
  if (signal.aborted) onAbort()
  else if (request.destroyed) onGone()
  else request.pipe(body)
  return body
}
