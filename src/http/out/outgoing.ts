import { type LookupAddress, type LookupAllOptions, lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import type { Agent } from 'undici'
import { badRequest, reasonOf } from '../../core/errors.ts'
import { isAllowedAddress, isClosedPort } from './address-guard.ts'

export type OutgoingRequest = {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  url: string
  headers?: Record<string, string>
  body?: string | Buffer
  /** For the whole exchange: a receiver that drips one byte per second does not stretch it. */
  timeoutMs: number
  /** The response body is cut here. */
  maxBytes: number
  signal?: AbortSignal
}

export type OutgoingResponse = {
  status: number
  headers: Record<string, string>
  body: string
  truncated: boolean
}

export interface Outgoing {
  /** Throws OutgoingError when there was no complete answer; any status is an answer. Redirects are not followed. */
  request(ask: OutgoingRequest): Promise<OutgoingResponse>
  /** 400 for a URL that could never be called. Names are judged at connect time, literal addresses here. */
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

/** The system's name resolution, as dns.lookup does it. */
type Resolve = (
  name: string,
  options: LookupAllOptions,
  done: (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void,
) => void

/** The one client for every call the server makes: webhooks, mail and SMS gateways, OAuth providers, embeddings. */
export function createOutgoing(options: { allowPrivateNetworks: boolean; resolve?: Resolve }): Outgoing {
  const { allowPrivateNetworks, resolve = lookup } = options
  let client: Promise<{ agent: Agent; request: typeof import('undici').request }> | undefined

  // The answer of this lookup is what the socket connects to, so there is no second resolution to rebind.
  const guardedLookup: LookupFunction = (hostname, wish, done) => {
    resolve(hostname, { ...wish, all: true }, (error, found) => {
      if (error) return done(error, '', 0)
      const allowed = found.filter(({ address }) => isAllowedAddress(address, allowPrivateNetworks))
      const [first] = allowed
      if (!first) return done(blocked(), '', 0)
      return wish.all ? done(null, allowed) : done(null, first.address, first.family)
    })
  }

  // undici costs about 10 MB; a server that never calls out does not pay it.
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

  const isAllowedTarget = (url: URL): boolean => {
    const host = url.hostname.replace(/^\[|\]$/g, '')
    if (isClosedPort(Number(url.port))) return false
    // RFC 6761: names under localhost are loopback, whatever a resolver says.
    if (/(^|\.)localhost\.?$/.test(host)) return allowPrivateNetworks
    return isIP(host) === 0 || isAllowedAddress(host, allowPrivateNetworks)
  }

  return {
    assertAllowedUrl(text) {
      const url = text.length <= MAX_URL_LENGTH && URL.canParse(text) ? new URL(text) : undefined
      if (!url || !isHttp(url)) throw badRequest('url must be an absolute http or https URL')
      if (url.username || url.password) throw badRequest('url must not include embedded credentials')
      if (!isAllowedTarget(url)) throw badRequest('url points to a forbidden address')
    },

    async request(ask) {
      const url = URL.canParse(ask.url) ? new URL(ask.url) : undefined
      if (!url || !isHttp(url) || !isAllowedTarget(url)) throw blocked()

      const { agent, request } = await load()
      const timeout = AbortSignal.timeout(ask.timeoutMs)
      const signal = ask.signal ? AbortSignal.any([timeout, ask.signal]) : timeout
      try {
        const answer = await request(url, {
          method: ask.method,
          headers: ask.headers ?? {},
          body: ask.body ?? null,
          dispatcher: agent,
          signal,
        })
        const { text, truncated } = await readUpTo(ask.maxBytes, answer.body)
        return { status: answer.statusCode, headers: flat(answer.headers), body: text, truncated }
      } catch (thrown) {
        throw asOutgoingError(thrown, timeout, ask.signal)
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

function asOutgoingError(thrown: unknown, timeout: AbortSignal, caller: AbortSignal | undefined): OutgoingError {
  if (thrown instanceof OutgoingError) return thrown
  if (timeout.aborted) return new OutgoingError('timeout', 'request timed out', thrown)
  if (caller?.aborted) return new OutgoingError('aborted', 'request was aborted', thrown)
  return new OutgoingError('network', networkReason(thrown), thrown)
}

/** Error codes are stable and name no internals; messages of sockets carry addresses. */
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
