import type { ClientHttp2Session, IncomingHttpHeaders } from 'node:http2'
import { reasonOf } from '../../core/errors.ts'
import { retryAfterOf } from '../../http/out/retry-after.ts'
import type { ApnsCredentials } from './credentials.ts'
import { signedJwt } from './jwt.ts'
import type { PushMessage, PushOutcome, PushProvider } from './provider.ts'

/** Apple requires tokens to be renewed every 20 to 60 minutes. */
const TOKEN_LIFE_MS = 50 * 60_000
const IDLE_MS = 5 * 60_000
const MAX_RESPONSE_BYTES = 65_536
const CREDENTIAL_REASONS = new Set(['ExpiredProviderToken', 'InvalidProviderToken', 'MissingProviderToken'])
const TOKEN_REASONS = new Set(['BadDeviceToken', 'DeviceTokenNotForTopic'])

type ApnsAnswer = { status: number; headers: IncomingHttpHeaders; reason: string }

/** Apple's push service: one persistent HTTP/2 connection and a self-signed provider token. */
export class Apns implements PushProvider {
  readonly #credentials: ApnsCredentials
  readonly #endpoint: string
  readonly #timeoutMs: number
  #session: ClientHttp2Session | undefined
  #token: { text: string; goodUntil: number } | undefined

  constructor(deps: { credentials: ApnsCredentials; endpoint: string; timeoutMs: number }) {
    this.#credentials = deps.credentials
    this.#endpoint = deps.endpoint
    this.#timeoutMs = deps.timeoutMs
  }

  async send(message: PushMessage): Promise<PushOutcome> {
    const signal = AbortSignal.timeout(this.#timeoutMs)
    try {
      const used = this.#providerToken()
      let answer = await this.#post(message, signal)
      if (CREDENTIAL_REASONS.has(answer.reason)) {
        if (this.#token?.text === used) this.#token = undefined
        answer = await this.#post(message, signal)
      }
      return outcomeOf(answer)
    } catch (error) {
      if (!signal.aborted) return { kind: 'failed', code: 'network', message: reasonOf(error) }
      // A silent connection may be dead, so the next attempt opens a new one.
      this.#session?.destroy()
      return { kind: 'failed', code: 'timeout', message: 'request timed out' }
    }
  }

  stop(): void {
    this.#session?.destroy()
  }

  async #post({ id, token, title, body, data }: PushMessage, signal: AbortSignal): Promise<ApnsAnswer> {
    const session = await this.#connected()
    return new Promise((resolve, reject) => {
      const stream = session.request(
        {
          ':method': 'POST',
          ':path': `/3/device/${encodeURIComponent(token)}`,
          authorization: `bearer ${this.#providerToken()}`,
          'apns-topic': this.#credentials.bundleId,
          'apns-push-type': 'alert',
          'apns-priority': '10',
          'apns-id': id,
          // A repeat after a lost response replaces the notification instead of duplicating it.
          'apns-collapse-id': id,
          'content-type': 'application/json',
        },
        { signal },
      )
      let head: IncomingHttpHeaders & { ':status'?: number | undefined } = {}
      let text = ''
      stream.setEncoding('utf8')
      stream.on('response', (headers) => {
        head = headers
      })
      stream.on('data', (chunk: string) => {
        text += chunk
        if (text.length > MAX_RESPONSE_BYTES) stream.destroy(new Error('response too large'))
      })
      // A 200 means accepted, even if the connection breaks right after.
      stream.on('error', (error) => (head[':status'] === 200 ? undefined : reject(error)))
      stream.on('close', () => {
        const status = head[':status']
        if (status === undefined) return reject(new Error('connection closed before the answer was complete'))
        return resolve({ status, headers: head, reason: reasonIn(text) })
      })
      stream.end(JSON.stringify({ ...data, aps: { alert: { title, body } } }))
    })
  }

  /** One shared connection, opened on first use and again after it broke. */
  async #connected(): Promise<ClientHttp2Session> {
    // Loaded on first use, because most servers never push.
    const { connect } = await import('node:http2')
    if (this.#session && !this.#session.closed && !this.#session.destroyed) return this.#session
    const session = connect(this.#endpoint)
    const forget = (): void => {
      if (this.#session === session) this.#session = undefined
    }
    // Streams report their own failure; an unhandled 'error' event would end the process.
    session.on('error', forget).on('close', forget).on('goaway', forget)
    session.setTimeout(IDLE_MS, () => session.close())
    session.unref()
    this.#session = session
    return session
  }

  #providerToken(): string {
    if (this.#token && performance.now() < this.#token.goodUntil) return this.#token.text
    const { key, keyId, teamId } = this.#credentials
    const claims = { iss: teamId, iat: Math.floor(Date.now() / 1000) }
    const text = signedJwt(key, { alg: 'ES256', kid: keyId }, claims)
    this.#token = { text, goodUntil: performance.now() + TOKEN_LIFE_MS }
    return text
  }
}

function reasonIn(text: string): string {
  try {
    const { reason } = Object(JSON.parse(text)) as { reason?: unknown }
    return typeof reason === 'string' ? reason : ''
  } catch {
    return ''
  }
}

function outcomeOf({ status, headers, reason }: ApnsAnswer): PushOutcome {
  const messageId = headers['apns-id']
  if (status === 200) return { kind: 'sent', messageId: typeof messageId === 'string' ? messageId : undefined }
  const code = reason || `http_${status}`
  const message = `the service answered ${status}`
  if (status === 410 || TOKEN_REASONS.has(code)) return { kind: 'invalid', code, message }
  return { kind: 'failed', code, message, retryAfter: retryAfterOf(headers['retry-after'], Date.now()) }
}
