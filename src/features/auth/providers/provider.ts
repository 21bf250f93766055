import { AppError, badRequest } from '../../../core/errors.ts'
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

export type Ask = { state: string; nonce: string; codeVerifier: string; callbackUrl: string }

/** A place where people already have an account. */
export interface Provider {
  readonly name: string
  /** Where the browser goes to sign in. */
  authorizeUrl(ask: Ask): Promise<string>
  /** Who came back with this answer (the query of the callback). */
  exchange(ask: Ask, answer: URLSearchParams): Promise<Profile>
  /** Whose access token this is, provided it was issued to us. */
  profileOfToken(accessToken: string): Promise<Profile>
}

/** The provider could not be asked, or did not say anything useful. */
export const providerFailed = (cause?: unknown): AppError =>
  new AppError('bad_gateway', 'failed to authenticate with provider', { cause })

/** The provider spoke, and what it said is no sign-in for us. */
export const signInRefused = (cause?: unknown): AppError =>
  new AppError('bad_request', 'OAuth authentication was denied or failed', { cause })

export const tokenRefused = (): AppError => new AppError('unauthorized', 'failed to authenticate with provider')

/** RFC 6750, 3.1: malformed, expired or revoked, or without the scope. */
export const isRefusal = (status: number): boolean => status === 400 || status === 401 || status === 403

export const foreignToken = (): AppError => badRequest('access token was issued to another client')

export type ProviderContext = { outgoing: Outgoing; name: string; config: ProviderConfig }

export const TIMEOUT_MS = 10_000
export const MAX_BYTES = 256 * 1024

type Json = Readonly<Record<string, unknown>>

/** A JSON object from the provider with its status, or 502. */
export async function askJson(
  outgoing: Outgoing,
  request: { method: 'GET' | 'POST'; url: string; headers?: Record<string, string>; body?: string },
): Promise<{ status: number; body: unknown }> {
  const headers = { accept: 'application/json', 'user-agent': 'savanna', ...request.headers }
  try {
    const answer = await outgoing.request({ ...request, headers, timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES })
    return { status: answer.status, body: parsed(answer.body) }
  } catch (error) {
    throw providerFailed(error)
  }
}

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
