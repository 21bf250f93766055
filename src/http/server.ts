import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { budgets } from '../core/budgets.ts'
import { AppError, badRequest, serverBusy } from '../core/errors.ts'
import { type Identity, userIdOf } from '../core/identity.ts'
import type { BudgetLimits } from '../core/limits.ts'
import { Exchange } from './exchange.ts'
import type { AnonymousAccess } from './guard.ts'
import { createPipeline, isOwnPath, type PipelineDeps } from './pipeline.ts'
import type { RateLimit } from './rate-limit.ts'
import { closeWhenStalled, writeReply } from './reply.ts'
import type { Reply } from './route.ts'
import { lastResponseOn, requestsUpgradedAt } from './upgrade.ts'
import { addressSubject, createClientAddress } from './wire/client-address.ts'
import { drain } from './wire/drain.ts'
import { bodyFor, causesOf, parserError, refuseSocket, stackOf, toAppError } from './wire/error-response.ts'
import { createHeaders, requestIdOf } from './wire/headers.ts'
import { IncomingBodies, type IncomingPace } from './wire/incoming-bodies.ts'
import { KEEP_ALIVE_SECONDS, PlainHeads, responseOn } from './wire/node-internals.ts'
import { loggedPath, splitTarget } from './wire/target.ts'
import { followTls, readTls, type TlsFiles } from './wire/tls-files.ts'
import { type ReadingPace, UnsentResponses } from './wire/unsent-responses.ts'

/** One finished request, for the access log and the metrics. Never bodies or bearers. */
export type RequestInfo = {
  method: string
  /** The path pattern, such as `/api/things/{id}`, or `unmatched`. */
  route: string
  /** With the names of query parameters but not their values, and without tokens; a function because it is computed only for logs. */
  path(): string
  /** 499: the client disconnected before the response. */
  status: number
  ms: number
  ip: string
  requestId: string
  userId: string | null
  who: Identity
  /** Length of the response content. */
  bytes: number
}

export type Budgets = {
  responseBytes: number
  incomingBodies: BudgetLimits
  incomingPace: IncomingPace
  unsentResponses: BudgetLimits
  readingPace: ReadingPace
}

export type HttpServerConfig = {
  host: string
  port: number
  publicBaseUrl: string
  corsOrigins: readonly string[]
  trustedProxies: readonly string[]
  bodyLimit: number
  shutdownTimeoutSeconds: number
  rateLimits: Readonly<Record<string, RateLimit | null>>
  /** `api.anonymous` */
  anonymous?: AnonymousAccess
  /** Certificate and key of the server itself; undefined: a proxy has them, or nothing does. */
  tls?: TlsFiles | undefined
  /** Requests handled at the same time; further ones get 503. */
  maxConcurrent?: number
  /** Time limits for sending the headers and the whole request. */
  timeouts?: { headersMs: number; requestMs: number }
  /** Overrides of core/budgets.ts. */
  budgets?: Partial<Budgets>
}

type Deps = Omit<PipelineDeps, 'bodyLimit' | 'rateLimits' | 'incomingBodies' | 'anonymousAccess' | 'allowsOrigin'> & {
  onRequest?: (info: RequestInfo) => void
  /** Runs when the drain begins; ends long streams, which would otherwise delay it. */
  onDrain?: () => void
  /** The reference, where `doc_url` of a failure leads. */
  reference?: () => string
  config: HttpServerConfig
}

export type HttpServer = {
  listen(): Promise<{ port: number; url: string }>
  /** Drains: no new connections, requests in flight finish, streams are ended. */
  stop(): Promise<void>
}

const HEADER_BYTES = 64 * 1024
const TIMEOUTS = { headersMs: 60_000, requestMs: 300_000 }

export function createHttpServer(deps: Deps): HttpServer {
  const { config, observe, onRequest, sites, onDrain = () => {} } = deps
  const { bodyLimit, rateLimits, timeouts = TIMEOUTS } = config
  const limits = { ...budgets, ...config.budgets }
  const incomingBodies = new IncomingBodies(limits.incomingBodies, limits.incomingPace)
  const unsent = new UnsentResponses(limits.unsentResponses, limits.readingPace)
  const headers = createHeaders(config)
  const pipeline = createPipeline({
    ...deps,
    bodyLimit,
    rateLimits,
    incomingBodies,
    anonymousAccess: config.anonymous ?? 'all',
    allowsOrigin: headers.allows,
  })
  const openPaths = new Set(deps.routes.filter(({ anyOrigin }) => anyOrigin).map(({ path }) => path))
  const clientAddress = createClientAddress(config.trustedProxies)
  const maxConcurrent = config.maxConcurrent ?? 10_000
  /** Node no longer tracks these sockets. */
  const upgraded = new Set<Socket>()
  const heads = new PlainHeads()
  let draining = false
  let handling = 0
  let streaming = 0

  const options = {
    headersTimeout: timeouts.headersMs,
    requestTimeout: timeouts.requestMs,
    connectionsCheckingInterval: Math.min(5_000, timeouts.headersMs),
    keepAliveTimeout: KEEP_ALIVE_SECONDS * 1000,
    maxHeaderSize: HEADER_BYTES,
    // Checked in `handle` instead, because node's own response has no body.
    requireHostHeader: false,
    IncomingMessage: requestsUpgradedAt(deps.routes),
  }
  const tlsServer = config.tls && createTlsServer({ ...options, ...readTls(config.tls) })
  const server = tlsServer ?? createServer(options)
  const leaveTls = tlsServer && config.tls ? followTls(tlsServer, config.tls, observe) : () => {}

  function open(request: IncomingMessage, response: ServerResponse): Exchange {
    const given = request.headers
    const requestId = requestIdOf(given['x-request-id'] as string | undefined)
    const ip = clientAddress(request.socket.remoteAddress, given['x-forwarded-for'] as string | undefined)
    const target = splitTarget(request.url ?? '/')
    const site = isOwnPath(target.path) ? undefined : sites?.slugOf(given.host ?? '')
    return new Exchange({
      request,
      response,
      requestId,
      ip,
      target,
      common: site === undefined ? headers.common(target.path) : headers.site,
      own:
        given.origin === undefined || site !== undefined ? [] : headers.cors(given.origin, openPaths.has(target.path)),
      site,
    })
  }

  /**
   * Pipelined requests are handled one by one, so that one connection cannot occupy the server with dozens of requests.
   * Node assigns the socket to a response when its turn comes.
   */
  function handleInOrder(request: IncomingMessage, response: ServerResponse, awaitsContinue = false): void {
    if (response.socket !== null) handle(request, response, awaitsContinue)
    else response.once('socket', () => setImmediate(handle, request, response, awaitsContinue))
  }

  function handle(
    request: IncomingMessage,
    response: ServerResponse,
    awaitsContinue: boolean,
    upgradeHead?: Buffer,
  ): void {
    handling++
    const exchange = open(request, response)
    exchange.awaitsContinue = awaitsContinue
    exchange.upgradeHead = upgradeHead
    try {
      if (handling - incomingBodies.count > maxConcurrent) throw serverBusy()
      if (request.headers.host === undefined && request.httpVersion === '1.1')
        throw badRequest('missing host header', 'bad_request')
      if (hasTwoHosts(request.rawHeaders)) throw badRequest('duplicate host header', 'bad_request')
      const reply = pipeline(exchange)
      if (reply instanceof Promise) {
        reply.then(
          (late) => answer(exchange, late),
          (error) => fail(exchange, error),
        )
      } else answer(exchange, reply)
    } catch (error) {
      fail(exchange, error)
    }
  }

  function answer(exchange: Exchange, reply: Reply): void {
    try {
      if (exchange.request.method === 'OPTIONS' && exchange.site === undefined)
        exchange.own.push(...headers.preflight(exchange.request.headers.origin, openPaths.has(exchange.target.path)))
      if (reply.streaming) stream(exchange, reply)
      else {
        send(exchange, reply)
        done(exchange, reply.status)
      }
    } catch (error) {
      fail(exchange, error)
    }
  }

  function send(exchange: Exchange, reply: Reply): void {
    const bytes = writeReply(
      exchange,
      reply,
      draining || exchange.upgradeHead !== undefined,
      limits.responseBytes,
      heads,
    )
    exchange.sentBytes = bytes
    if (exchange.response.writableLength > 0) unsent.watch(exchange.response, addressSubject(exchange.ip), bytes)
  }

  /** Streams do not count towards `maxConcurrent`: thousands may be open for a long time. */
  function stream(exchange: Exchange, reply: Reply): void {
    const { request, response } = exchange
    if (exchange.isConnectionTaken) {
      reportOnClose(request.socket, recordOf(exchange), reply.status)
      return
    }
    closeWhenStalled(response)
    // Event streams are mostly idle, and realtime bounds their buffer.
    if (response.getHeader('content-type') !== 'text/event-stream') unsent.watchStream(response)
    response.on('error', () => response.destroy())
    reportOnClose(request.socket, exchange, reply.status, response)
  }

  function reportOnClose(
    socket: Socket,
    record: RequestRecord,
    status: number,
    lasting: Socket | ServerResponse = socket,
  ): void {
    const before = socket.bytesWritten
    handling--
    streaming++
    const ended = (): void => {
      streaming--
      record.sentBytes = socket.bytesWritten - before
      report(record, status)
    }
    if (lasting.closed) ended()
    else lasting.once('close', ended)
  }

  function fail(exchange: Exchange, thrown: unknown): void {
    const error = toAppError(thrown)
    const { response, route, requestId } = exchange
    if (exchange.clientIsGone) {
      done(exchange, 499)
      return
    }
    if (error.status >= 500) {
      observe({
        level: error.status === 500 ? 'error' : 'warn',
        message: 'request failed',
        attrs: {
          requestId,
          route: exchange.pattern,
          status: error.status,
          error: causesOf(error),
          stack: stackOf(thrown),
        },
      })
    }
    try {
      if (exchange.isConnectionTaken) exchange.request.socket.destroy()
      else if (response.headersSent) response.destroy()
      else {
        const body = route?.errorBody ? route.errorBody(error) : bodyFor(exchange.method, error, deps.reference?.())
        send(exchange, { status: error.status, body, ...(error.headers && { headers: error.headers }) })
      }
    } catch (again) {
      observe({ message: 'error answer failed', attrs: { requestId, error: causesOf(again) } })
      response.destroy()
    }
    done(exchange, error.status)
  }

  function done(exchange: Exchange, status: number): void {
    handling--
    report(exchange, status)
  }

  function report(
    { method, pattern, target, startedAt, ip, requestId, who, sentBytes, trace }: RequestRecord,
    status: number,
  ): void {
    trace?.end(status)
    const info = {
      method,
      route: pattern,
      // Not a getter: V8 creates a new accessor for each object literal.
      path: () => loggedPath(target, pattern),
      status,
      ms: performance.now() - startedAt,
      ip,
      requestId,
      userId: userIdOf(who),
      who,
      bytes: sentBytes,
    }
    try {
      onRequest?.(info)
    } catch (error) {
      observe({ message: 'request not reported', attrs: { requestId, error: causesOf(error) } })
    }
  }

  /** Refuses a socket without a request: parser errors, timeouts, CONNECT. */
  function refuse(socket: Socket, error: AppError): void {
    refuseSocket(socket, error, [...headers.common('').flat, 'X-Request-Id', requestIdOf(undefined)])
  }

  const refused = new WeakSet<Socket>()
  server.on('request', (request: IncomingMessage, response: ServerResponse) => handleInOrder(request, response))
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) =>
    handleInOrder(request, response, true),
  )
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    handling++
    fail(open(request, response), new AppError('expectation_failed', 'expectation failed'))
  })
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    upgraded.add(socket)
    socket.once('close', () => upgraded.delete(socket)).on('error', () => socket.destroy())
    // No honest client sends an upgrade before it has the response to its earlier request.
    if (responseOn(socket)) socket.destroy()
    else handle(request, lastResponseOn(socket, request), false, head)
  })
  server.on('connect', (_request: IncomingMessage, socket: Socket) => {
    refuse(socket, new AppError('method_not_allowed', 'method not allowed'))
  })
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    if (refused.has(socket)) return
    refused.add(socket)
    const begun = responseOn(socket)?.headersSent === true
    if (error.code === 'ECONNRESET' || !socket.writable || begun) socket.destroy()
    else refuse(socket, parserError(error.code))
  })

  async function stop(): Promise<void> {
    if (draining) return
    draining = true
    leaveTls()
    if (!server.listening) return
    await drain(server, {
      onDrain,
      isBusy: () => handling + streaming > 0,
      timeoutMs: config.shutdownTimeoutSeconds * 1000,
      cutUpgraded: () => {
        for (const socket of upgraded) socket.destroy()
      },
    })
  }

  return {
    async listen() {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject)
        server.listen({ host: config.host, port: config.port, backlog: 4096 }, () => {
          server.off('error', reject)
          resolve()
        })
      })
      server.on('error', (error) => observe({ message: 'http server error', attrs: { error: causesOf(error) } }))
      const { port } = server.address() as AddressInfo
      const host = config.host.includes(':') ? `[${config.host}]` : config.host
      return { port, url: `${config.tls ? 'https' : 'http'}://${host}:${port}` }
    },
    stop,
  }
}

/** The part of an exchange that is reported when the request ends. */
type RequestRecord = Pick<
  Exchange,
  'method' | 'pattern' | 'target' | 'startedAt' | 'ip' | 'requestId' | 'who' | 'sentBytes' | 'trace'
>

/** A copy without the request and the response, which would stay in memory as long as an upgraded connection lives. */
const recordOf = (exchange: Exchange): RequestRecord => {
  const { method, pattern, target, startedAt, ip, requestId, who, sentBytes, trace } = exchange
  return { method, pattern, target, startedAt, ip, requestId, who, sentBytes, trace }
}

/** Node uses the first Host header; a proxy in front may use the other (RFC 9112 §3.2). */
function hasTwoHosts(rawHeaders: readonly string[]): boolean {
  let count = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]
    if (name?.length === 4 && name.toLowerCase() === 'host') count++
  }
  return count > 1
}
