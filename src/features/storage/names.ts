import { badRequest } from '../../core/errors.ts'

/** Kept for paths of their own. */
const RESERVED = new Set(['buckets', 'upload'])
const MAX_NAME_BYTES = 1024

export function bucketName(text: string): string {
  const isGood = /^[a-z0-9_-]{1,63}$/.test(text) && !text.startsWith('_svc') && !RESERVED.has(text)
  if (!isGood) throw badRequest(`invalid bucket name: ${text}`)
  return text
}

/** Backslashes, control characters, and halves of characters, which no URL can spell. */
const FORBIDDEN = /[\\\p{Cc}\p{Cs}]/u

/** Names are keys, never paths of a file system; still nothing in them may look like a way to climb. */
export const isObjectName = (name: string): boolean =>
  name !== '' &&
  Buffer.byteLength(name) <= MAX_NAME_BYTES &&
  !FORBIDDEN.test(name) &&
  name.split('/').every((segment) => segment !== '' && segment !== '.' && segment !== '..')

export function objectName(name: string): string {
  if (!isObjectName(name)) throw badRequest(`invalid object name: ${name}`)
  return name
}

/** As it stands in a URL. */
export const encodedName = (name: string): string => name.split('/').map(encodeURIComponent).join('/')
