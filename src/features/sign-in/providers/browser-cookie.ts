/**
 * Identifies the browser during a redirect to a provider, so that only the browser that began a sign-in can finish it
 * (RFC 6819, 4.4.1.8). It grants nothing else.
 */
const NAME = 'svc_oauth_browser'
const TOKEN = /^[A-Za-z0-9_-]{43}$/

/** With https the prefix keeps other hosts of the domain from setting it (RFC 6265bis, 4.1.3.2). */
const isSecure = (baseUrl: string): boolean => baseUrl.startsWith('https:')
const nameFor = (baseUrl: string): string => (isSecure(baseUrl) ? `__Host-${NAME}` : NAME)

/** Lax, because the browser returns by a navigation from the provider's site. */
export function browserCookie(browser: string, baseUrl: string, seconds: number): string {
  const where = isSecure(baseUrl) ? 'Path=/; Secure' : 'Path=/api/auth/oauth'
  return `${nameFor(baseUrl)}=${browser}; ${where}; Max-Age=${seconds}; HttpOnly; SameSite=Lax`
}

/** The id in the cookie; parallel sign-ins in several tabs share it. */
export function browserOf(cookies: string | undefined, baseUrl: string): string | undefined {
  const given = (cookies ?? '').split(';').map((pair) => pair.trim().split('='))
  const value = given.find(([name]) => name === nameFor(baseUrl))?.[1]
  return value !== undefined && TOKEN.test(value) ? value : undefined
}
