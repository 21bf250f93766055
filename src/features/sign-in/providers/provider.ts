import { createHash } from 'node:crypto'
import { AppError, badRequest, isMistake } from '../../../core/errors.ts'
import { parseKeepingDigits } from '../../../core/json-digits.ts'
import type { Outgoing } from '../../../http/out/outgoing.ts'
import type { Profile } from './profile.ts'

export type ProviderConfig = {
  enabled: boolean
  client_id: string
  client_secret: string
  issuer: string
  authorize_url: string
  token_url: string
  userinfo_url: string
  scopes: readonly string[]
}

export type AuthorizeParams = { state: string; nonce: string; codeVerifier: string; callbackUrl: string }

/** An external identity provider. */
export interface SignInProvider {
  readonly name: string
  /** URL of the provider's sign-in page. */
  authorizeUrl(params: AuthorizeParams): Promise<string>
  /** The user of a callback; `answer` is its query. */
  exchange(params: AuthorizeParams, answer: URLSearchParams): Promise<Profile>
  /** The user of an access token; throws unless it was issued to us. */
  profileOfToken(accessToken: string): Promise<Profile>
}

/** RFC 6749, 4.1.1, with PKCE (RFC 7636). */
export function authorizeAddress(
  endpoint: string,
  config: ProviderConfig,
  params: AuthorizeParams,
  more: Texts = {},
): string {
  const url = new URL(endpoint)
  const parameters = {
    response_type: 'code',
    client_id: config.client_id,
    redirect_uri: params.callbackUrl,
    scope: config.scopes.join(' '),
    state: params.state,
    code_challenge: createHash('sha256').update(params.codeVerifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...more,
  }
  for (const [key, value] of Object.entries(parameters)) url.searchParams.set(key, value)
  return url.href
}

type Texts = Readonly<Record<string, string>>

/** The provider was unreachable, or its response was unusable. */
export const providerFailed = (cause?: unknown): AppError =>
  new AppError('provider_failed', 'failed to authenticate with provider', { cause })

/** The provider denied the sign-in, or its answer is not valid for us. */
export const signInRefused = (cause?: unknown): AppError =>
  new AppError('provider_denied', 'OAuth authentication was denied or failed', { cause })

export const foreignToken = (): AppError => badRequest('access token was issued to another client', 'provider_denied')

export type ProviderContext = { outgoing: Outgoing; name: string; config: ProviderConfig }

export const TIMEOUT_MS = 10_000
export const MAX_PROVIDER_BYTES = 256 * 1024

type Json = Readonly<Record<string, unknown>>

/** The status and parsed JSON of a provider's response; 502 if the request fails. */
export async function fetchJson(
  outgoing: Outgoing,
  request: { method: 'GET' | 'POST'; url: string; headers?: Record<string, string>; body?: string },
): Promise<{ status: number; body: unknown }> {
  const headers = { accept: 'application/json', 'user-agent': 'savanna', ...request.headers }
  try {
    const answer = await outgoing.request({ ...request, headers, timeoutMs: TIMEOUT_MS, maxBytes: MAX_PROVIDER_BYTES })
    return { status: answer.status, body: parsed(answer.body) }
  } catch (error) {
    throw isMistake(error) ? error : providerFailed(error)
  }
}

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

/** The claims about a user that the provider returns for the user's access token. */
export async function fetchClaims(outgoing: Outgoing, url: string, accessToken: string): Promise<Json> {
  const { status, body } = await fetchJson(outgoing, { method: 'GET', url, headers: bearer(accessToken) })
  if (status !== 200 || !isObject(body)) throw providerFailed()
  return body
}

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const parsed = (text: string): unknown => {
  try {
    return parseKeepingDigits(text)
  } catch {
    return undefined
  }
}
