import { isUtf8 } from 'node:buffer'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { AppError, badRequest } from '../../core/errors.ts'
import type { IncomingBodies } from './incoming-bodies.ts'
import { type FormPairs, parsePairs } from './target.ts'

/** Deeper than any honest document, and far below the stack limits of Node and PostgreSQL. */
const MAX_DEPTH = 100

export const announcesBody = (headers: IncomingHttpHeaders): boolean =>
  headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0'

const tooLarge = (): AppError => new AppError('payload_too_large', 'request body too large')

/** Receives the whole body; refuses it as soon as its announced or real size exceeds the limit. */
export function receiveBody(
  request: IncomingMessage,
  limit: number,
  incomingBodies: IncomingBodies,
  address: string,
): Promise<Buffer> {
  const announced = Number(request.headers['content-length'] ?? 0)
  if (announced > limit) return Promise.reject(tooLarge())
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const refuse = (error: AppError): void => {
      reservation.release()
      request.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone)
      request.pause()
      reject(error)
    }
    const reservation = incomingBodies.begin(address, refuse)
    const onData = (chunk: Buffer): void => {
      size += chunk.length
      chunks.push(chunk)
      if (size > limit) refuse(tooLarge())
      // A complete body does not count against the budget.
      else if (size !== announced) reservation.grow(chunk.length)
    }
    let isWhole = false
    const onEnd = (): void => {
      isWhole = true
      reservation.release()
      resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks))
    }
    // Also runs after a complete request, because removing the listeners would cost more.
    const onGone = (): void => {
      if (isWhole) return
      reservation.release()
      reject(badRequest('request body was cut off', 'invalid_body'))
    }
    request.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone)
  })
}

/** Compressed bodies are refused, because a few bytes could expand to gigabytes. */
export function refuseEncoding(headers: IncomingHttpHeaders): void {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  if (encoding !== '' && encoding !== 'identity') {
    throw new AppError('unsupported_media_type', 'content encoding is not supported')
  }
}

export function requireType(headers: IncomingHttpHeaders, expected: string): void {
  if (headers['content-type'] === expected) return
  const [type = '', ...parameters] = (headers['content-type'] ?? '').toLowerCase().split(';')
  const charset = parameters.map((text) => text.trim()).find((text) => text.startsWith('charset='))
  const isUtf8Text = charset === undefined || /^charset="?utf-?8"?$/.test(charset)
  if (type.trim() !== expected || !isUtf8Text) {
    throw new AppError('unsupported_media_type', `content type must be ${expected}`)
  }
}

export function parseJson(bytes: Buffer): { text: string; value: unknown } {
  if (!isUtf8(bytes) || isTooDeep(bytes)) throw badRequest('invalid JSON body', 'invalid_body')
  const text = bytes.toString('utf8')
  try {
    return { text, value: withoutProto(text, JSON.parse(text)) }
  } catch {
    throw badRequest('invalid JSON body', 'invalid_body')
  }
}

export function parseForm(bytes: Buffer): FormPairs & { text: string } {
  if (!isUtf8(bytes)) throw badRequest('invalid form body', 'invalid_body')
  const text = bytes.toString('utf8')
  return { ...parsePairs(text, 'form'), text }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Scans the bytes, because JSON.parse would recurse as deep as the text. */
function isTooDeep(bytes: Buffer): boolean {
  if (bytes.length <= 2 * MAX_DEPTH) return false
  let depth = 0
  let inString = false
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]
    if (inString) {
      if (byte === BACKSLASH) i++
      else if (byte === QUOTE) inString = false
    } else if (byte === QUOTE) inString = true
    else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > MAX_DEPTH) return true
    } else if (byte === 0x5d || byte === 0x7d) depth--
  }
  return false
}

/**
 * JSON.parse makes `__proto__` an own property, which changes the prototype when it is copied by assignment, so it is
 * dropped here. The text for PostgreSQL keeps it as an ordinary name.
 */
function withoutProto(text: string, value: unknown): unknown {
  if (text.includes('__proto__') || /\\u00[567]/i.test(text)) dropProto(value)
  return value
}

function dropProto(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  if (Object.hasOwn(value, '__proto__')) Reflect.deleteProperty(value, '__proto__')
  for (const child of Object.values(value)) dropProto(child)
}
