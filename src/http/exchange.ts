import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AuditEntry, AuditNote } from '../core/audit-entry.ts'
import type { CancelSignal } from '../core/cancel-signal.ts'
import type { AppError } from '../core/errors.ts'
import { ANONYMOUS, type Identity } from '../core/identity.ts'
import type { Once } from '../core/once.ts'
import type { Timing } from '../core/timing.ts'
import type { RequestSpan } from '../core/trace.ts'
import type { Call, Route, UpgradedConnection } from './route.ts'
import { announcesBody } from './wire/body.ts'
import type { CommonHeaders, FlatHeaders } from './wire/headers.ts'
import { decodeParam, type FormPairs, parsePairs, type RequestTarget, UNMATCHED } from './wire/target.ts'

/** One request and its response. */
export class Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly startedAt: number = performance.now()
  readonly requestId: string
  readonly ip: string
  readonly target: RequestTarget
  readonly common: CommonHeaders
  /** Headers of this response beyond the common ones, also of errors. Never text from outside. */
  readonly own: FlatHeaders
  /** The hosted site of the request's host name. */
  readonly site: string | undefined
  route: Route | undefined
  /** Bytes of the content that were passed to the connection. */
  sentBytes = 0
  /** The path pattern for logs and metrics, where text of the client must not become a label. */
  pattern = UNMATCHED
  who: Identity = ANONYMOUS
  badBearer: AppError | undefined
  /** Set when an admin sends X-Timing. */
  timing: Timing | undefined
  /** Set with telemetry. */
  trace: RequestSpan | undefined
  /** The handler uses the response itself, so headers are set on it. */
  isRawTaken = false
  /** The client waits for `100 Continue` before it sends its body (RFC 9110 §10.1.1). */
  awaitsContinue = false
  /** Bytes that followed an upgrade request; undefined for other requests. */
  upgradeHead: Buffer | undefined
  /** The handler took over the connection. */
  isConnectionTaken = false

  constructor(
    init: Pick<Exchange, 'request' | 'response' | 'requestId' | 'ip' | 'target' | 'common' | 'own' | 'site'>,
  ) {
    this.request = init.request
    this.response = init.response
    this.requestId = init.requestId
    this.ip = init.ip
    this.target = init.target
    this.common = init.common
    this.own = init.own
    this.site = init.site
  }

  get method(): string {
    return this.request.method ?? ''
  }

  get flatHeaders(): FlatHeaders {
    return [...this.common.flat, ...this.own, 'X-Request-Id', this.requestId]
  }

  get clientIsGone(): boolean {
    return this.response.destroyed || this.request.socket.destroyed
  }

  /** The body was not read and is too large to be skipped before the next request of the connection. */
  get leavesBodyUnread(): boolean {
    const { request } = this
    if (request.complete || !announcesBody(request.headers)) return false
    return this.awaitsContinue || !(Number(request.headers['content-length']) <= 65_536)
  }

  /** The handler judges first, and asks for the body by reading it. */
  continueWhenRead(): void {
    if (!this.awaitsContinue) return
    this.request.on('newListener', (event) => {
      if (event === 'data' || event === 'readable') this.continue()
    })
  }

  continue(): void {
    if (!this.awaitsContinue || this.response.headersSent) return
    this.awaitsContinue = false
    this.response.writeContinue()
  }
}

const NO_PAIRS: FormPairs = { values: Object.freeze(Object.create(null)), repeated: new Set() }
const NO_PARAMS: Readonly<Record<string, string>> = Object.freeze({})

function byName(names: readonly string[], values: readonly string[]): Record<string, string> {
  const record: Record<string, string> = {}
  for (let i = 0; i < names.length; i++) record[names[i] ?? ''] = values[i] ?? ''
  return record
}

/** The call that a handler receives. Expensive parts are made on first use. */
export class HttpCall implements Call {
  readonly params: Readonly<Record<string, string>>
  readonly rawParams: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string>>
  repeated: ReadonlySet<string>
  body: unknown = {}
  bodyText = ''
  once: Once | undefined
  readonly #exchange: Exchange
  #raw: Call['raw'] | undefined
  #cancelSignal: ClientGoneSignal | undefined
  #abort: AbortController | undefined

  constructor(exchange: Exchange, names: readonly string[], raw: readonly string[]) {
    this.#exchange = exchange
    // The query of a hosted site belongs to its pages, so it is not parsed or checked.
    const isUnread = exchange.target.query === '' || exchange.site !== undefined
    const query = isUnread ? NO_PAIRS : parsePairs(exchange.target.query, 'query')
    this.query = query.values
    this.repeated = query.repeated
    this.rawParams = names.length === 0 ? NO_PARAMS : byName(names, raw)
    this.params = names.length === 0 ? NO_PARAMS : byName(names, raw.map(decodeParam))
  }

  get headers(): Readonly<Record<string, string | undefined>> {
    return this.#exchange.request.headers as Readonly<Record<string, string | undefined>>
  }
  get who(): Identity {
    return this.#exchange.who
  }
  get badBearer(): AppError | undefined {
    return this.#exchange.badBearer
  }
  get ip(): string {
    return this.#exchange.ip
  }
  get requestId(): string {
    return this.#exchange.requestId
  }
  get target(): string {
    const { path, query } = this.#exchange.target
    return query === '' ? path : `${path}?${query}`
  }

  /** A handler writes the entry in its own flight. */
  isAudited = false

  audit({ target, oldValues, newValues }: AuditNote = {}): AuditEntry {
    this.isAudited = true
    return {
      who: this.who,
      action: this.#exchange.route?.audit ?? '',
      target: target || (Object.values(this.params).at(-1) ?? ''),
      ip: this.ip,
      requestId: this.requestId,
      ...(oldValues !== undefined && { oldValues }),
      ...(newValues !== undefined && { newValues }),
    }
  }

  get raw(): Call['raw'] {
    if (this.#raw === undefined) {
      const { request, response, flatHeaders: headers } = this.#exchange
      this.#exchange.isRawTaken = true
      for (let i = 0; i < headers.length; i += 2) response.setHeader(headers[i] ?? '', headers[i + 1] ?? '')
      this.#raw = { request, response }
    }
    return this.#raw
  }

  takeConnection(): UpgradedConnection {
    const exchange = this.#exchange
    const { request, response, flatHeaders: headers, upgradeHead: head } = exchange
    if (head === undefined) throw new TypeError('only the connection of an upgrade can be taken')
    exchange.isConnectionTaken = true
    response.detachSocket(request.socket)
    return { request, socket: request.socket, head, headers }
  }

  get cancelSignal(): CancelSignal {
    this.#cancelSignal ??= new ClientGoneSignal(this.#exchange)
    return this.#cancelSignal
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      const abort = new AbortController()
      if (this.cancelSignal.aborted) abort.abort()
      else this.cancelSignal.addEventListener('abort', () => abort.abort())
      this.#abort = abort
    }
    return this.#abort.signal
  }
}

class ClientGoneSignal implements CancelSignal {
  readonly #exchange: Exchange
  #listeners: (() => void)[] | undefined

  constructor(exchange: Exchange) {
    this.#exchange = exchange
  }

  get aborted(): boolean {
    return this.#exchange.clientIsGone && !this.#exchange.response.writableFinished
  }

  addEventListener(_event: 'abort', listener: () => void): void {
    if (this.#listeners === undefined) {
      this.#listeners = []
      this.#exchange.response.on('close', () => this.#closed())
    }
    this.#listeners.push(listener)
  }

  removeEventListener(_event: 'abort', listener: () => void): void {
    this.#listeners = this.#listeners?.filter((one) => one !== listener)
  }

  #closed(): void {
    if (this.#exchange.response.writableFinished) return
    for (const listener of this.#listeners?.splice(0) ?? []) listener()
  }
}
