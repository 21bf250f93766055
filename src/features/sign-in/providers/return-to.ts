import { badRequest } from '../../../core/errors.ts'

export type ReturnConfig = { oauth_redirect_url: string; oauth_return_to_allowlist: readonly string[] }

const LOOPBACK = new Set(['localhost', '127.0.0.1'])
const refused = () => badRequest('invalid redirect_to')

/**
 * Where a sign-in may end: tokens travel in the fragment of this address, so only places the operator named count.
 * Empty when the application asked for nothing and nothing is configured.
 */
export function returnTo(asked: string | undefined, config: ReturnConfig): string {
  if (asked === undefined || asked === '') return config.oauth_redirect_url
  // Browsers read backslashes as slashes and drop tabs and line breaks; nothing honest contains them.
  if (asked.length > 2048 || !/^[\x21-\x7e]+$/.test(asked) || asked.includes('\\')) throw refused()
  const url = absolute(asked, config)
  const isSafe = url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.has(url.hostname))
  if (!isSafe || url.username !== '' || url.password !== '' || !isNamed(url, config)) throw refused()
  url.hash = ''
  return url.href
}

function absolute(asked: string, { oauth_redirect_url: base }: ReturnConfig): URL {
  const isPath = asked.startsWith('/') && !asked.startsWith('//')
  if (isPath && base === '') throw refused()
  const text = isPath ? new URL(base).origin + asked : asked
  if (!URL.canParse(text)) throw refused()
  return new URL(text)
}

function isNamed(url: URL, config: ReturnConfig): boolean {
  if (config.oauth_redirect_url !== '' && url.origin === new URL(config.oauth_redirect_url).origin) return true
  return config.oauth_return_to_allowlist.some((host) => host === url.host || host === url.hostname)
}
