import { badRequest } from '../../../core/errors.ts'

export type ReturnConfig = { oauth_redirect_url: string; oauth_return_to_allowlist: readonly string[] }

const LOOPBACK = new Set(['localhost', '127.0.0.1'])
const refused = () => badRequest('invalid redirect_to')

/**
 * Where a sign-in may end: tokens travel in the fragment of this address, so only allowed origins are accepted.
 * Empty if nothing was requested and nothing is configured.
 */
export function returnTo(requested: string | undefined, config: ReturnConfig): string {
  if (requested === undefined || requested === '') return config.oauth_redirect_url
  // Refuses what browsers would rewrite: backslashes become slashes, tabs and line breaks are dropped.
  if (requested.length > 2048 || !/^[\x21-\x7e]+$/.test(requested) || requested.includes('\\')) throw refused()
  const url = absolute(requested, config)
  const isSafe = url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.has(url.hostname))
  if (!isSafe || url.username !== '' || url.password !== '' || !isNamed(url, config)) throw refused()
  url.hash = ''
  return url.href
}

function absolute(requested: string, { oauth_redirect_url: base }: ReturnConfig): URL {
  const isPath = requested.startsWith('/') && !requested.startsWith('//')
  if (isPath && base === '') throw refused()
  const text = isPath ? new URL(base).origin + requested : requested
  if (!URL.canParse(text)) throw refused()
  return new URL(text)
}

function isNamed(url: URL, config: ReturnConfig): boolean {
  if (config.oauth_redirect_url !== '' && url.origin === new URL(config.oauth_redirect_url).origin) return true
  return config.oauth_return_to_allowlist.some((host) => host === url.host || host === url.hostname)
}
