import { randomBytes } from 'node:crypto'

/** Header names and values alternating, which `writeHead` accepts without an object. */
export type FlatHeaders = string[]

const EXPOSED =
  'X-Request-Id, Retry-After, ETag, Content-Range, Accept-Ranges, Content-Disposition, ' +
  'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, ' +
  'X-App-RateLimit-Limit, X-App-RateLimit-Remaining, X-App-RateLimit-Reset, Server-Timing, Idempotency-Replayed, Svc-Position, ' +
  'Location, Tus-Resumable, Tus-Version, Tus-Extension, Tus-Max-Size, Tus-Checksum-Algorithm, ' +
  'Upload-Offset, Upload-Length, Upload-Metadata, Upload-Expires, WWW-Authenticate'

export const flatOf = (headers: Readonly<Record<string, string>>): FlatHeaders => Object.entries(headers).flat()

const PREFLIGHT = flatOf({
  'Access-Control-Allow-Methods': 'GET, POST, PUT, PATCH, DELETE, OPTIONS',
  'Access-Control-Allow-Headers':
    'Content-Type, Authorization, X-Request-Id, X-Timing, Last-Event-ID, X-Notify-Table, X-Notify-Action, Dry-Run, Idempotency-Key, Svc-Position, Range, If-Match, If-None-Match, If-Modified-Since, ' +
    'Tus-Resumable, Upload-Length, Upload-Offset, Upload-Metadata, Upload-Checksum, X-HTTP-Method-Override, X-Requested-With, MCP-Protocol-Version, Mcp-Method, Mcp-Name',
  'Access-Control-Max-Age': '86400',
})

export type HeaderConfig = { publicBaseUrl: string; corsOrigins: readonly string[] }

/** The common response headers. CORS never allows credentials: cookies are for pages of this server alone. */
export function createHeaders({ publicBaseUrl, corsOrigins }: HeaderConfig) {
  const anyOrigin = corsOrigins.includes('*')
  const listed = new Set(corsOrigins)
  const always = flatOf({
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': 'DENY',
    'Referrer-Policy': 'strict-origin-when-cross-origin',
    'Permissions-Policy': 'camera=(), microphone=(), geolocation=()',
    ...(publicBaseUrl.startsWith('https:') && { 'Strict-Transport-Security': 'max-age=31536000' }),
    ...(anyOrigin && { 'Access-Control-Allow-Origin': '*' }),
    ...(!anyOrigin && listed.size > 0 && { Vary: 'Origin' }),
  })
  const open = commonOf(always)
  const secret = commonOf([...always, 'Cache-Control', 'no-store'])
  const allows = (origin: string | undefined): boolean => anyOrigin || (origin !== undefined && listed.has(origin))

  return {
    allows,
    /** Hosted sites set their own framing and sharing headers. */
    site: commonOf(['X-Content-Type-Options', 'nosniff']),
    common: (path: string): CommonHeaders => (isSecretPath(path) ? secret : open),
    /** For requests with an Origin header; `isOpen`: the route has `anyOrigin`. */
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

/** The same headers as a flat list for writeHead and as text. */
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

/** Unique over all servers and restarts; a random number per request would cost more than the rest of the head. */
const newRequestId = (): string => `${idPrefix}-${(++lastId).toString(36)}`

/** A well-formed id of the client is kept, so that one id follows a request through several services. */
export const requestIdOf = (given: string | undefined): string =>
  given !== undefined && /^[A-Za-z0-9_-]{1,64}$/.test(given) ? given : newRequestId()

/** Sets headers in a flat list; existing values are replaced, except Vary, which is extended. */
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
