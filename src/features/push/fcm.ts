import { reasonOf } from '../../core/errors.ts'
import { type Outgoing, OutgoingError, type OutgoingResponse } from '../../http/out/outgoing.ts'
import { retryAfterOf } from '../../http/out/retry-after.ts'
import type { FcmCredentials } from './credentials.ts'
import { signedJwt } from './jwt.ts'
import type { PushMessage, PushOutcome, PushProvider } from './provider.ts'

const SCOPE = 'https://www.googleapis.com/auth/firebase.messaging'
const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const ASSERTION_SECONDS = 3600
const MAX_RESPONSE_BYTES = 65_536
/** A token is renewed this long before it expires, or after nine tenths of a shorter lifetime. */
const RENEW_EARLY_MS = 300_000
const PERMANENT = new Set(['INVALID_ARGUMENT', 'SENDER_ID_MISMATCH', 'THIRD_PARTY_AUTH_ERROR'])

/** FCM HTTP v1, with an access token from the token endpoint of the service account (RFC 7523). */
export class Fcm implements PushProvider {
  readonly #credentials: FcmCredentials
  readonly #outgoing: Outgoing
  readonly #url: string
  readonly #timeoutMs: number
  #token: { text: Promise<string>; goodUntil: number } | undefined

  constructor(deps: { credentials: FcmCredentials; outgoing: Outgoing; endpoint: string; timeoutMs: number }) {
    this.#credentials = deps.credentials
    this.#outgoing = deps.outgoing
    this.#url = `${deps.endpoint}/v1/projects/${encodeURIComponent(deps.credentials.projectId)}/messages:send`
    this.#timeoutMs = deps.timeoutMs
  }

  async send(message: PushMessage): Promise<PushOutcome> {
    const deadline = performance.now() + this.#timeoutMs
    try {
      await this.#accessToken(deadline)
      const used = this.#token
      const first = await this.#post(message, deadline)
      if (first.status !== 401) return outcomeOf(first)
      // Unless another delivery has fetched a new one meanwhile.
      if (this.#token === used) this.#token = undefined
      return outcomeOf(await this.#post(message, deadline))
    } catch (error) {
      const message = reasonOf(error)
      if (error instanceof TokenRefused)
        return { kind: 'failed', message, code: error.code, retryAfter: error.retryAfter }
      return { kind: 'failed', message, code: error instanceof OutgoingError ? error.reason : 'internal' }
    }
  }

  async #post({ id, token, title, body, data }: PushMessage, deadline: number): Promise<OutgoingResponse> {
    const message = {
      token,
      notification: { title, body },
      // A repeat after a lost response replaces the notification instead of duplicating it.
      android: { notification: { tag: id } },
      ...(Object.keys(data).length > 0 && { data }),
    }
    return this.#outgoing.request({
      method: 'POST',
      url: this.#url,
      headers: { authorization: `Bearer ${await this.#accessToken(deadline)}`, 'content-type': 'application/json' },
      body: JSON.stringify({ message }),
      timeoutMs: msLeft(deadline),
      maxBytes: MAX_RESPONSE_BYTES,
    })
  }

  /** Concurrent deliveries share one token request. */
  #accessToken(deadline: number): Promise<string> {
    if (this.#token && performance.now() < this.#token.goodUntil) return this.#token.text
    const fetched: { text: Promise<string>; goodUntil: number } = {
      goodUntil: Number.POSITIVE_INFINITY,
      text: this.#fetchToken(deadline).then(({ text, seconds }) => {
        const life = seconds * 1000
        fetched.goodUntil = performance.now() + Math.max(life - RENEW_EARLY_MS, life * 0.9)
        return text
      }),
    }
    fetched.text.catch(() => {
      if (this.#token === fetched) this.#token = undefined
    })
    this.#token = fetched
    return fetched.text
  }

  async #fetchToken(deadline: number): Promise<{ text: string; seconds: number }> {
    const { clientEmail, key, tokenUri } = this.#credentials
    const now = Math.floor(Date.now() / 1000)
    const claims = { iss: clientEmail, scope: SCOPE, aud: tokenUri, iat: now, exp: now + ASSERTION_SECONDS }
    const assertion = signedJwt(key, { alg: 'RS256' }, claims)
    const answer = await this.#outgoing.request({
      method: 'POST',
      url: tokenUri,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ grant_type: GRANT, assertion }).toString(),
      timeoutMs: msLeft(deadline),
      maxBytes: MAX_RESPONSE_BYTES,
    })
    const { access_token: text, expires_in: seconds, error } = parsed(answer.body)
    if (answer.status !== 200 || typeof text !== 'string') {
      const retryAfter = retryAfterOf(answer.headers['retry-after'], Date.now())
      throw new TokenRefused(typeof error === 'string' ? error : `http_${answer.status}`, retryAfter)
    }
    return { text, seconds: typeof seconds === 'number' ? seconds : ASSERTION_SECONDS }
  }
}

class TokenRefused extends Error {
  readonly code: string
  readonly retryAfter: number | undefined
  constructor(code: string, retryAfter: number | undefined) {
    super('the token endpoint gave no access token')
    this.code = code
    this.retryAfter = retryAfter
  }
}

const msLeft = (deadline: number): number => Math.max(1, Math.ceil(deadline - performance.now()))

function parsed(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}

type FcmError = { message?: unknown; status?: unknown; details?: { errorCode?: unknown }[] }

function outcomeOf({ status, headers, body }: OutgoingResponse): PushOutcome {
  const answer = parsed(body)
  if (status === 200) {
    return { kind: 'sent', messageId: typeof answer['name'] === 'string' ? answer['name'] : undefined }
  }
  const error: FcmError = Object(answer['error'])
  const details = Array.isArray(error.details) ? error.details : []
  const code = String(details.find((detail) => detail?.errorCode)?.errorCode ?? error.status ?? `http_${status}`)
  const message = typeof error.message === 'string' ? error.message : `the service answered ${status}`
  if (code === 'UNREGISTERED') return { kind: 'invalid', code, message }
  if (PERMANENT.has(code)) return { kind: 'refused', code, message }
  return { kind: 'failed', code, message, retryAfter: retryAfterOf(headers['retry-after'], Date.now()) }
}
