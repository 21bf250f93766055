import { type LookupAddress, type LookupAllOptions, lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import type { Agent } from 'undici'
import { badRequest, isMistake, reasonOf } from '../../core/errors.ts'
import { traceOutgoing } from '../../core/trace.ts'
import { isAllowedAddress, isClosedPort } from './address-guard.ts'

export type OutgoingRequest = {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  url: string
  headers?: Record<string, string>
  body?: string | Buffer
  /** For the whole exchange, so that a receiver that sends one byte per second cannot extend it. */
  timeoutMs: number
  /** The response body is truncated here. */
  maxBytes: number
  signal?: AbortSignal
  /** The traceparent of what caused it, where that is no request under way. */
  cause?: string | undefined
}

export type OutgoingResponse = {
  status: number
  headers: Record<string, string>
  body: string
  truncated: boolean
}

export interface Outgoing {
  /** Throws OutgoingError without a complete response; any status is a response. Redirects are not followed. */
  request(options: OutgoingRequest): Promise<OutgoingResponse>
  /** Throws 400 for a forbidden URL. Literal addresses are checked here; names, and ports, when a request is made. */
  assertAllowedUrl(url: string): void
  stop(): Promise<void>
}

export class OutgoingError extends Error {
  readonly reason: 'blocked' | 'timeout' | 'aborted' | 'network'
  constructor(reason: OutgoingError['reason'], message: string, cause?: unknown) {
    super(message, { cause })
    this.reason = reason
  }
}

const blocked = (): OutgoingError => new OutgoingError('blocked', 'blocked: address is not allowed')
const MAX_URL_LENGTH = 2048

/** Name resolution with the signature of dns.lookup. */
type Resolve = (
  name: string,
  options: LookupAllOptions,
  done: (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void,
) => void

/** The HTTP client of all outgoing calls: webhooks, mail and SMS gateways, OAuth providers, embeddings. */
export function createOutgoing(options: { allowPrivateNetworks: boolean; resolve?: Resolve }): Outgoing {
  const { allowPrivateNetworks, resolve = lookup } = options
  let client: Promise<{ agent: Agent; request: typeof import('undici').request }> | undefined

  // The socket connects to the address that was checked here, which prevents DNS rebinding.
  const guardedLookup: LookupFunction = (hostname, lookupOptions, done) => {
    resolve(hostname, { ...lookupOptions, all: true }, (error, found) => {
      if (error) return done(error, '', 0)
      const allowed = found.filter(({ address }) => isAllowedAddress(address, allowPrivateNetworks))
      const [first] = allowed
      if (!first) return done(blocked(), '', 0)
      return lookupOptions.all ? done(null, allowed) : done(null, first.address, first.family)
    })
  }

  // Loaded on first use, because undici takes about 10 MB.
  const load = () => {
    client ??= import('undici').then(({ Agent, request }) => ({
      agent: new Agent({
        connect: { lookup: guardedLookup, timeout: 10_000 },
        headersTimeout: 0,
        bodyTimeout: 0,
        keepAliveTimeout: 4_000,
        keepAliveMaxTimeout: 30_000,
        maxHeaderSize: 16_384,
      }),
      request,
    }))
    return client
  }

  const isAllowedHost = (url: URL): boolean => {
    const host = url.hostname.replace(/^\[|\]$/g, '')
    // RFC 6761: names under localhost are loopback.
    if (/(^|\.)localhost\.?$/.test(host)) return allowPrivateNetworks
    return isIP(host) === 0 || isAllowedAddress(host, allowPrivateNetworks)
  }

  return {
    assertAllowedUrl(text) {
      const url = text.length <= MAX_URL_LENGTH && URL.canParse(text) ? new URL(text) : undefined
      if (!url || !isHttp(url)) throw badRequest('url must be an absolute http or https URL')
      if (url.username || url.password) throw badRequest('url must not include embedded credentials')
      if (!isAllowedHost(url)) throw badRequest('url points to a forbidden address')
    },

    async request({ method, url: target, headers = {}, body = null, timeoutMs, maxBytes, signal: caller, cause }) {
      const url = URL.canParse(target) ? new URL(target) : undefined
      if (!url || !isHttp(url) || !isAllowedHost(url) || isClosedPort(Number(url.port))) throw blocked()

      const { agent, request } = await load()
      const timeout = AbortSignal.timeout(timeoutMs)
      const signal = caller ? AbortSignal.any([timeout, caller]) : timeout
      const span = traceOutgoing(method, target, cause)
      const sent = span ? { ...headers, traceparent: span.traceparent } : headers
      try {
        const response = await request(url, { method, headers: sent, body, dispatcher: agent, signal })
        const { text, truncated } = await readUpTo(maxBytes, response.body)
        span?.end(response.statusCode)
        return { status: response.statusCode, headers: flat(response.headers), body: text, truncated }
      } catch (thrown) {
        span?.end(undefined)
        throw asOutgoingError(thrown, timeout, caller)
      }
    },

    async stop() {
      const opened = client
      client = undefined
      await (await opened)?.agent.destroy()
    },
  }
}

const isHttp = (url: URL): boolean => (url.protocol === 'http:' || url.protocol === 'https:') && url.hostname !== ''

async function readUpTo(
  maxBytes: number,
  body: AsyncIterable<Buffer> & { destroy(): unknown },
): Promise<{ text: string; truncated: boolean }> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    size += chunk.length
    if (size > maxBytes) break // leaving the loop destroys the stream and with it the connection
  }
  const whole = Buffer.concat(chunks)
  return { text: whole.subarray(0, maxBytes).toString('utf8'), truncated: size > maxBytes }
}

const flat = (headers: Record<string, string | string[] | undefined>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : (value ?? '')]),
  )

function asOutgoingError(thrown: unknown, timeout: AbortSignal, caller: AbortSignal | undefined): unknown {
  if (thrown instanceof OutgoingError || isMistake(thrown)) return thrown
  if (timeout.aborted) return new OutgoingError('timeout', 'request timed out', thrown)
  if (caller?.aborted) return new OutgoingError('aborted', 'request was aborted', thrown)
  return new OutgoingError('network', networkReason(thrown), thrown)
}

/** Built from error codes, because messages of socket errors contain addresses. */
function networkReason(thrown: unknown): string {
  const code = (thrown as { code?: unknown } | null)?.code
  if (typeof code !== 'string') return reasonOf(thrown)
  const known: Record<string, string> = {
    ECONNREFUSED: 'connection refused',
    ECONNRESET: 'connection reset',
    ENOTFOUND: 'host not found',
    EAI_AGAIN: 'host not found',
    UND_ERR_SOCKET: 'connection closed before the answer was complete',
    UND_ERR_CONNECT_TIMEOUT: 'connection timed out',
    UND_ERR_HEADERS_OVERFLOW: 'response headers too large',
  }
  return known[code] ?? `request failed: ${code}`
}
