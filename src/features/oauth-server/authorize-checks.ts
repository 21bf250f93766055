import { isIdentityScope, OAUTH_SCOPE_WORDS, parseOAuthScope } from '../../core/scope.ts'
import type { AuthorizationRequest } from './authorization-request.ts'
import type { Client } from './client-sql.ts'
import { type OAuthError, refuse } from './errors.ts'

type Check = (request: AuthorizationRequest, client: Client) => OAuthError | undefined

/** base64url of a SHA-256, without padding (RFC 7636, section 4.2). */
const CHALLENGE = /^[A-Za-z0-9_-]{43}$/
/** RFC 7636, section 4.1. */
export const isVerifier = (text: string): boolean => /^[A-Za-z0-9._~-]{43,128}$/.test(text)

export const isScopeWord = (text: string): boolean => OAUTH_SCOPE_WORDS.includes(text)

/**
 * Every word must be in the client's list; a client with the scope `*` may be granted any. Words about the user need no entry:
 * a token for data could read the same, and the user sees them before the client does.
 */
export const mayGrant = ({ scopes }: Pick<Client, 'scopes'>, scope: string): boolean =>
  parseOAuthScope(scope) !== undefined &&
  (scopes.includes('*') || scope.split(' ').every((word) => isIdentityScope(word) || scopes.includes(word)))

/**
 * RFC 6749, section 4.1.1, in its order, for a known client. Errors are never redirected but shown to the user
 * (RFC 9700, section 4.11.2).
 */
const authorizeChecks: readonly Check[] = [
  function redirectUriIsPresent(request) {
    return request.redirectUri === '' ? refuse('invalid_request', 'redirect_uri is required') : undefined
  },
  function redirectUriIsRegistered(request, client) {
    return isRedirectUri(client, request.redirectUri)
      ? undefined
      : refuse('invalid_request', 'redirect_uri is not registered')
  },
  function responseTypeIsPresent(request) {
    return request.responseType === '' ? refuse('invalid_request', 'response_type is required') : undefined
  },
  function responseTypeIsCode(request) {
    return request.responseType === 'code'
      ? undefined
      : refuse('unsupported_response_type', 'response_type must be code')
  },
  function scopeIsPresent(request) {
    return request.scope === '' ? refuse('invalid_request', 'scope is required') : undefined
  },
  function scopeIsAllowed(request, client) {
    return mayGrant(client, request.scope)
      ? undefined
      : refuse('invalid_scope', 'scope is not one that this client may ask for')
  },
  // RFC 7636, section 4.3, with S256 alone (RFC 9700, section 2.1.1).
  function challengeMethodIsS256(request) {
    return request.challengeMethod === 'S256'
      ? undefined
      : refuse('invalid_request', 'code_challenge_method must be S256')
  },
  function challengeIsSha256(request) {
    return CHALLENGE.test(request.challenge)
      ? undefined
      : refuse('invalid_request', 'code_challenge must be a SHA-256 in base64url')
  },
]

export function runChecks(request: AuthorizationRequest, client: Client): void {
  for (const check of authorizeChecks) {
    const failure = check(request, client)
    if (failure) throw failure
  }
}

export const isRedirectUri = (
  { redirectUris, clientType }: Pick<Client, 'redirectUris' | 'clientType'>,
  requested: string,
): boolean => redirectUris.some((uri) => isSameUri(uri, requested, clientType))

const LOOPBACK = /^http:\/\/(127\.0\.0\.1|\[::1\])(:\d{1,5})?(\/.*)?$/
const LOOPBACK_OR_NAME = /^http:\/\/(127\.0\.0\.1|\[::1\]|localhost)(:\d{1,5})?(\/.*)?$/

/**
 * Equal, except for the port of a loopback address, which the system picks (RFC 8252, section 7.3); of public clients also
 * that of `localhost`, which programs in use send.
 */
function isSameUri(registered: string, requested: string, type: Client['clientType']): boolean {
  if (registered === requested) return true
  const loopback = type === 'public' ? LOOPBACK_OR_NAME : LOOPBACK
  const [, host, , path = ''] = loopback.exec(registered) ?? []
  const [, requestedHost, requestedPort, requestedPath = ''] = loopback.exec(requested) ?? []
  return (
    host !== undefined &&
    host === requestedHost &&
    path === requestedPath &&
    Number(requestedPort?.slice(1) ?? 80) <= 65_535
  )
}

/** Schemes that are no application's own. */
const NOT_PRIVATE = new Set(['http:', 'https:', 'javascript:', 'data:', 'file:', 'blob:', 'about:', 'vbscript:'])

/** Whether a redirect URI may be registered at all. Public clients may have a scheme of their own (RFC 8252, section 7.1). */
export function isRegistrable(uri: string, type: string): boolean {
  if (uri.length > 2000 || !URL.canParse(uri) || /[\s*#?\\]/.test(uri) || /[^\x21-\x7e]/.test(uri)) return false
  const { protocol, hostname, username, password, href } = new URL(uri)
  if (username !== '' || password !== '' || uri.includes('@')) return false
  const isLoopback = hostname === 'localhost' || hostname === '127.0.0.1' || hostname === '[::1]'
  if (type === 'public' && !NOT_PRIVATE.has(protocol)) return href === uri
  if (protocol !== 'https:' && !(protocol === 'http:' && isLoopback)) return false
  // A browser must not normalise it to another URI, except for the slash of an empty path.
  return href === uri || href === `${uri}/`
}
