import { badRequest } from '../../core/errors.ts'
import { MASK, maskSecrets } from '../../core/redact.ts'

/** The pattern of a request that no route takes. */
export const UNMATCHED = 'unmatched'

/** A request target split at its `?`, not decoded. */
export type RequestTarget = { path: string; query: string }

/** Accepts origin form and absolute form (RFC 9112 §3.2.2); the host of an absolute form is ignored. */
export function splitTarget(url: string): RequestTarget {
  const target = url.startsWith('/') ? url : withoutOrigin(url)
  const at = target.indexOf('?')
  return at === -1 ? { path: target, query: '' } : { path: target.slice(0, at), query: target.slice(at + 1) }
}

/** Any other form is returned unchanged and matches no route. */
function withoutOrigin(url: string): string {
  const rest = /^https?:\/\/[^/?#]+(.*)$/i.exec(url)?.[1]
  if (rest === undefined) return url
  return rest.startsWith('/') ? rest : `/${rest}`
}

export function decodeParam(raw: string): string {
  let text = raw
  if (raw.includes('%')) {
    try {
      text = decodeURIComponent(raw)
    } catch {
      throw badRequest('invalid percent-encoding in path', 'bad_request')
    }
  }
  // Bytes beyond ASCII must be percent-encoded (RFC 3986 §2.1); node decodes them as latin1.
  if (hasRawBytes(raw)) throw badRequest('invalid character in path', 'bad_request')
  if (text.includes('\0')) throw badRequest('path must not contain NUL', 'bad_request')
  return text
}

/** Browsers resolve dot segments before sending, so a request with one is a traversal attempt. */
export const hasDotSegment = (raw: string): boolean =>
  (raw.includes('.') || raw.includes('%')) && /(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)/i.test(raw)

const hasRawBytes = (text: string): boolean => {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 126) return true
  return false
}

export type FormPairs = { values: Record<string, string>; repeated: ReadonlySet<string> }

const NONE: ReadonlySet<string> = new Set()

/** Parses `application/x-www-form-urlencoded` text; the last value of a name wins. `where` is for error messages. */
export function parsePairs(text: string, where: 'query' | 'form'): FormPairs {
  const values: Record<string, string> = Object.create(null)
  if (text === '') return { values, repeated: NONE }
  let repeated: Set<string> | undefined
  for (const pair of text.split('&')) {
    if (pair === '') continue
    const at = pair.indexOf('=')
    const name = decode(at === -1 ? pair : pair.slice(0, at), where)
    if (name in values) {
      repeated ??= new Set()
      repeated.add(name)
    }
    values[name] = at === -1 ? '' : decode(pair.slice(at + 1), where)
  }
  return { values, repeated: repeated ?? NONE }
}

function decode(raw: string, where: 'query' | 'form'): string {
  if (where === 'query' && hasRawBytes(raw)) throw badRequest('invalid character in query', 'bad_request')
  const spaced = raw.includes('+') ? raw.replaceAll('+', ' ') : raw
  const text = spaced.includes('%') ? percentDecode(spaced, where) : spaced
  if (text.includes('\0')) throw badRequest(`${where} must not contain NUL`, 'bad_request')
  return text
}

function percentDecode(text: string, where: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw badRequest(`invalid percent-encoding in ${where}`, 'bad_request')
  }
}

const NAMED_VALUE = /^[A-Za-z_][A-Za-z0-9_.[\]-]{0,39}=/

/** The path for logs, with the values of query parameters masked, because any of them may be a secret, and those of `{token}`. */
export function loggedPath(target: RequestTarget, pattern: string): string {
  const { query } = target
  const path = loggedSegments(target.path, pattern)
  if (query === '') return path
  const pairs = query.split('&', MAX_LOGGED + 1)
  const shown = pairs.slice(0, MAX_LOGGED).map((pair) => `${NAMED_VALUE.exec(pair)?.[0] ?? ''}${MASK}`)
  return `${path}?${shown.join('&')}${pairs.length > MAX_LOGGED ? '&…' : ''}`
}

/** A link that was copied badly matches no route, and may still open what it was made for. */
function loggedSegments(path: string, pattern: string): string {
  if (pattern === UNMATCHED) return maskSecrets(path)
  if (!pattern.includes('{token}')) return path
  const names = pattern.split('/')
  return path
    .split('/')
    .map((segment, i) => (names[i] === '{token}' ? MASK : segment))
    .join('/')
}

const MAX_LOGGED = 20
