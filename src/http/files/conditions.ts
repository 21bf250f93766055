import { AppError } from '../../core/errors.ts'

/** The validators of one version of a resource (RFC 9110 §8.8). The tag is strong and includes its quotes. */
export type ResourceVersion = { etag: string; modifiedAt: Date }

type Headers = Readonly<Record<string, string | undefined>>

/** RFC 9110 §13.2.2: throws 412 when a precondition fails; true when the client has this version. */
export function isNotModified(headers: Headers, version: ResourceVersion): boolean {
  requireMatch(headers, version)
  const noneMatch = headers['if-none-match']
  if (noneMatch !== undefined) return matches(noneMatch, version.etag, 'weak')
  const since = Date.parse(headers['if-modified-since'] ?? '')
  return !Number.isNaN(since) && seconds(version.modifiedAt) <= seconds(since)
}

export const preconditionFailed = (): AppError => new AppError('precondition_failed', 'precondition failed')

/** Whether a write depends on the version that is there. */
export const isConditional = (headers: Headers): boolean =>
  ['if-match', 'if-none-match', 'if-unmodified-since'].some((name) => headers[name] !== undefined)

/** Throws 412 unless If-Match or If-Unmodified-Since names the current version. */
function requireMatch(headers: Headers, { etag, modifiedAt }: ResourceVersion): void {
  const match = headers['if-match']
  const unmodified = Date.parse(headers['if-unmodified-since'] ?? '')
  const isOther =
    match === undefined
      ? !Number.isNaN(unmodified) && seconds(modifiedAt) > seconds(unmodified)
      : !matches(match, etag, 'strong')
  if (isOther) throw preconditionFailed()
}

/** For PUT and DELETE: If-None-Match counts too, and its `*` wants nothing there. `now`: undefined if there is nothing. */
export function requireUnchanged(headers: Headers, now: ResourceVersion | undefined): void {
  if (now === undefined) {
    if (headers['if-match'] !== undefined) throw preconditionFailed()
    return
  }
  requireMatch(headers, now)
  const noneMatch = headers['if-none-match']
  if (noneMatch !== undefined && matches(noneMatch, now.etag, 'weak')) throw preconditionFailed()
}

const seconds = (time: Date | number): number => Math.floor(Number(time) / 1000)

/** RFC 9110 §8.8.3.2: a weak tag never matches where the comparison must be strong. */
function matches(header: string, etag: string, comparison: 'strong' | 'weak'): boolean {
  if (header.trim() === '*') return true
  return header.split(',').some((item) => {
    const tag = item.trim()
    return tag === etag || (comparison === 'weak' && tag === `W/${etag}`)
  })
}

/** Both ends included. */
export type ByteRange = { start: number; end: number }

/**
 * RFC 9110 §14: the requested range, or undefined for the whole. Unknown units, invalid and multiple ranges give the
 * whole; a range beyond the end is 416.
 */
export function rangeOf(headers: Headers, size: number, { etag }: ResourceVersion): ByteRange | undefined {
  const match = /^bytes=\s*(\d*)-(\d*)\s*$/i.exec(headers['range'] ?? '')
  if (!match || (match[1] === '' && match[2] === '')) return undefined
  // Dates are ignored: they cannot distinguish two versions of one second (§13.1.5).
  const ifRange = headers['if-range']
  if (ifRange !== undefined && ifRange.trim() !== etag) return undefined
  const [, first = '', last = ''] = match
  if (first === '') return suffix(Number(last), size)
  const [start, end] = [Number(first), last === '' ? size - 1 : Number(last)]
  if (last !== '' && end < start) return undefined
  if (start >= size) throw unsatisfiable(size)
  return { start, end: Math.min(end, size - 1) }
}

function suffix(length: number, size: number): ByteRange {
  if (length === 0 || size === 0) throw unsatisfiable(size)
  return { start: Math.max(0, size - length), end: size - 1 }
}

const unsatisfiable = (size: number): AppError =>
  new AppError('range_not_satisfiable', 'range not satisfiable', { headers: { 'Content-Range': `bytes */${size}` } })
