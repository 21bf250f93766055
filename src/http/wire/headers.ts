import { randomBytes } from 'node:crypto'

/** Header names and values in turn, the form `writeHead` takes without building an object. */
export type FlatHeaders = string[]

const EXPOSED = [
  'X-Request-Id',
  'Retry-After',
  'ETag',
  'Content-Range',
  'Accept-Ranges',
  'Content-Disposition',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'X-App-RateLimit-Limit',
  'X-App-RateLimit-Remaining',
  'X-App-RateLimit-Reset',
  'Server-Timing',
].join(', ')

const PREFLIGHT: FlatHeaders = [
  'Access-Control-Allow-Methods',
  'GET, POST, PUT, PATCH, DELETE, OPTIONS',
  'Access-Control-Allow-Headers',
  'Content-Type, Authorization, X-Request-Id, X-Timing, Last-Event-ID, X-Notify-Table, X-Notify-Action, Range, If-Match, If-None-Match, If-Modified-Since',
  'Access-Control-Max-Age',
  '86400',
]

export type HeaderConfig = { publicBaseUrl: string; corsOrigins: readonly string[] }

/** What every answer carries. Credentials are never allowed across origins: there are no cookies to send. */
export function createHeaders({ publicBaseUrl, corsOrigins }: HeaderConfig) {
  const anyOrigin = corsOrigins.includes('*')
  const listed = new Set(corsOrigins)
  const always: FlatHeaders = [
    'X-Content-Type-Options',
    'nosniff',
    'X-Frame-Options',
    'DENY',
    'Referrer-Policy',
    'strict-origin-when-cross-origin',
    'Permissions-Policy',
    'camera=(), microphone=(), geolocation=()',
    ...(publicBaseUrl.startsWith('https:') ? ['Strict-Transport-Security', 'max-age=31536000'] : []),
    ...(anyOrigin ? ['Access-Control-Allow-Origin', '*'] : []),
    ...(anyOrigin || listed.size === 0 ? [] : ['Vary', 'Origin']),
  ]
  const open = commonOf(always)
  const secret = commonOf([...always, 'Cache-Control', 'no-store'])
  const allows = (origin: string | undefined): boolean => anyOrigin || (origin !== undefined && listed.has(origin))

  return {
    allows,
    /** Hosted sites say themselves how they may be framed and shared. */
    site: commonOf(['X-Content-Type-Options', 'nosniff']),
    common: (path: string): CommonHeaders => (isSecretPath(path) ? secret : open),
    /** For requests from a page of another origin; `isOpen`: to a path that pages of every origin may call. */
    cors(origin: string, isOpen: boolean): FlatHeaders {
      const exposed = ['Access-Control-Expose-Headers', EXPOSED]
      if (isOpen && !anyOrigin) return ['Access-Control-Allow-Origin', '*', ...exposed]
      if (!allows(origin)) return []
      return anyOrigin ? exposed : ['Access-Control-Allow-Origin', origin, ...exposed]
    },
    preflight: (origin: string | undefined, isOpen: boolean): FlatHeaders =>
      isOpen || allows(origin) ? PREFLIGHT : [],
  }
}

/** The same headers twice: as writeHead takes them, and as text that is ready to be sent. */
export type CommonHeaders = { readonly flat: Readonly<FlatHeaders>; readonly lines: string }

const commonOf = (flat: FlatHeaders): CommonHeaders => ({ flat, lines: headerLines(flat) })

export function headerLines(flat: Readonly<FlatHeaders>): string {
  let lines = ''
  for (let i = 0; i < flat.length; i += 2) lines += `${flat[i]}: ${flat[i + 1]}\r\n`
  return lines
}

const isSecretPath = (path: string): boolean => path.startsWith('/api/auth/') || path.startsWith('/api/admin/')

const idPrefix = randomBytes(9).toString('hex')
let lastId = 0

/** Unique over all servers and restarts; a random number for each request would cost more than the rest of its head. */
const newRequestId = (): string => `${idPrefix}-${(++lastId).toString(36)}`

/** A caller's own id is kept when it is harmless, so that one id follows a request through several services. */
export const requestIdOf = (given: string | undefined): string =>
  given !== undefined && /^[A-Za-z0-9_-]{1,64}$/.test(given) ? given : newRequestId()

/** Adds headers to a flat list; a name that is already there is replaced, except Vary, which grows. */
export function putHeaders(flat: FlatHeaders, more: Readonly<Record<string, string>>): void {
  for (const name of Object.keys(more)) {
    const value = more[name]
    if (value === undefined) continue
    const lower = name.toLowerCase()
    let at = 0
    while (at < flat.length && flat[at]?.toLowerCase() !== lower) at += 2
    if (at < flat.length) flat[at + 1] = lower === 'vary' ? `${flat[at + 1]}, ${value}` : value
    else flat.push(name, value)
  }
}
