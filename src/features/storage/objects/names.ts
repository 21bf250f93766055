import { badRequest } from '../../../core/errors.ts'

/** Reserved for routes. */
const RESERVED = new Set(['buckets', 'upload', 'tus'])
const MAX_NAME_BYTES = 1024

export function bucketName(text: string): string {
  const isGood = /^[a-z0-9_-]{1,63}$/.test(text) && !text.startsWith('_svc') && !RESERVED.has(text)
  if (!isGood) throw badRequest(`invalid bucket name: ${text}`)
  return text
}

/** Backslashes, control characters, and lone surrogates, which no URL can encode. */
const FORBIDDEN = /[\\\p{Cc}\p{Cs}]/u

/** Names are keys, not file system paths; still, names that resemble path traversal are refused. */
export const isObjectName = (name: string): boolean =>
  name !== '' &&
  Buffer.byteLength(name) <= MAX_NAME_BYTES &&
  !FORBIDDEN.test(name) &&
  name.split('/').every((segment) => segment !== '' && segment !== '.' && segment !== '..')

export function objectName(name: string): string {
  if (!isObjectName(name)) throw badRequest(`invalid object name: ${name}`)
  return name
}

/** Percent-encoded for a URL, with the slashes kept. A star too, which means every path to some caches. */
export const encodedName = (name: string): string =>
  encodeURIComponent(name).replaceAll('%2F', '/').replaceAll('*', '%2A')

/** Of a field of a form. */
const MAX_METADATA_BYTES = 8_192

/** The text of a JSON object, as the column takes it. */
export function metadataOfFile(text: string): string {
  if (text === '') return '{}'
  const refusal = badRequest(`metadata must be a JSON object of at most ${MAX_METADATA_BYTES} bytes`)
  if (Buffer.byteLength(text) > MAX_METADATA_BYTES) throw refusal
  const value = parsed(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refusal
  return text
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
