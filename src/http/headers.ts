import { randomUUID } from 'node:crypto'

/** Header names and values in turn, the form `writeHead` takes without building an object. */
export type FlatHeaders = string[]

const EXPOSED = [
  'X-Request-Id',
  'Retry-After',
  'ETag',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'X-App-RateLimit-Limit',
  'X-App-RateLimit-Remaining',
  'X-App-RateLimit-Reset',
].join(', ')

const PREFLIGHT: FlatHeaders = [
  'Access-Control-Allow-Methods',
  'GET, POST, PUT, PATCH, DELETE, OPTIONS',
  'Access-Control-Allow-Headers',
  'Content-Type, Authorization, X-Request-Id, Last-Event-ID, X-Notify-Table, X-Notify-Action',
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
  const alwaysSecret: FlatHeaders = [...always, 'Cache-Control', 'no-store']

  function pushCors(flat: FlatHeaders, origin: string): void {
    if (!anyOrigin && !listed.has(origin)) return
    if (!anyOrigin) flat.push('Access-Control-Allow-Origin', origin)
    flat.push('Access-Control-Expose-Headers', EXPOSED)
  }

  return {
    common(path: string, origin: string | undefined, requestId: string): FlatHeaders {
      const flat = (isSecretPath(path) ? alwaysSecret : always).slice()
      if (origin !== undefined) pushCors(flat, origin)
      flat.push('X-Request-Id', requestId)
      return flat
    },
    preflight: (origin: string | undefined): FlatHeaders =>
      anyOrigin || (origin !== undefined && listed.has(origin)) ? PREFLIGHT : [],
  }
}

const isSecretPath = (path: string): boolean => path.startsWith('/api/auth/') || path.startsWith('/api/admin/')

/** A caller's own id is kept when it is harmless, so that one id follows a request through several services. */
export const requestIdOf = (given: string | undefined): string =>
  given !== undefined && /^[A-Za-z0-9_-]{1,64}$/.test(given) ? given : randomUUID()

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
