import { randomUUID } from 'node:crypto'
import type { CancelSignal } from '../../core/cancel-signal.ts'
import type { Clock } from '../../core/clock.ts'
import { badRequest, unauthorized } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import type { LiveQuery } from '../../db/rows/live-query.ts'
import { toAppError } from '../../http/wire/error-response.ts'
import type { Connections } from './deliver/connections.ts'
import type { GraphqlClient } from './deliver/graphql-client.ts'
import { COST, MessageBudget } from './deliver/message-budget.ts'
import { textFrame } from './deliver/messages.ts'
import type { LiveListener, LiveMessage } from './live/message.ts'
import type { LiveQueries } from './live/queries.ts'

/** What of GraphQL a WebSocket needs. `text`: a message whose `payload` is the request. */
export type GraphqlRequests = {
  readonly isEnabled: boolean
  /** A subscription, and the key of its field; undefined for a query or mutation. */
  live(text: string): Promise<(LiveQuery & { readonly field: string }) | undefined>
  /** The whole response, as JSON text. */
  answer(caller: { who: Identity; requestId: string; cancelSignal: CancelSignal }, text: string): Promise<string>
  /** The entries of `errors`. */
  failures(error: unknown): readonly object[]
}

export type GraphqlConversationDeps = {
  graphql: GraphqlRequests
  queries: LiveQueries
  connections: Connections
  visitorsMayListen: boolean
  identify: (bearer: string) => Identity | Promise<Identity>
  admit: (who: Identity) => void
  countRequest: (who: Identity) => Promise<void>
  clock: Clock
}

type Running = { isOver: boolean; close(): void }
type Message = { type?: unknown; id?: unknown; payload?: unknown }

const INIT_MS = 3_000
const MAX_RUNNING = 20

/** The protocol graphql-transport-ws of the package graphql-ws, with its codes. */
export class GraphqlConversation {
  readonly #client: GraphqlClient
  readonly #deps: GraphqlConversationDeps
  readonly #budget: MessageBudget
  readonly #running = new Map<string, Running>()
  readonly #timer: NodeJS.Timeout
  /** Gives back the place among those of the address that have not said who they are. */
  #releaseAddress: () => void
  #release: (() => void) | undefined
  #isInitialized = false
  #isAcknowledged = false

  constructor(client: GraphqlClient, deps: GraphqlConversationDeps, releaseAddress: () => void) {
    this.#client = client
    this.#deps = deps
    this.#budget = new MessageBudget(deps.clock)
    this.#releaseAddress = releaseAddress
    this.#timer = setTimeout(() => client.end(4408, 'Connection initialisation timeout'), INIT_MS).unref()
  }

  onMessage(data: Buffer, isBinary: boolean): void {
    const client = this.#client
    client.markAlive()
    const text = isBinary ? '' : data.toString()
    const { type, id, payload } = parsed(text) ?? {}
    if (client.closed) return
    try {
      this.#budget.spend(COST.cheap)
    } catch {
      client.end(4429, 'Too many messages')
    }
    if (type === 'connection_init') void this.#init(payload)
    else if (type === 'ping') client.sendMessage({ type: 'pong' })
    else if (type === 'complete' && isId(id)) this.#end(id)
    else if (type === 'subscribe' && isId(id)) this.#begin(id, text)
    else if (type !== 'pong') client.end(4400, 'Invalid message')
  }

  onClose(): void {
    clearTimeout(this.#timer)
    this.#releaseAddress()
    for (const id of this.#running.keys()) this.#end(id)
    this.#release?.()
    this.#release = undefined
  }

  #begin(id: string, text: string): void {
    if (!this.#isAcknowledged) this.#client.end(4401, 'Unauthorized')
    else if (this.#running.has(id)) this.#client.end(4409, `Subscriber for ${id.slice(0, 80)} already exists`)
    else void this.#subscribe(id, text)
  }

  async #init(payload: unknown): Promise<void> {
    const { connections } = this.#deps
    const client = this.#client
    if (this.#isInitialized) client.end(4429, 'Too many initialisation requests')
    if (client.closed) return
    this.#isInitialized = true
    const token = tokenIn(payload)
    try {
      await this.#identify(token)
    } catch (error) {
      client.fail(toAppError(error))
    }
    if (client.closed) return
    clearTimeout(this.#timer)
    this.#releaseAddress()
    this.#releaseAddress = () => {}
    this.#isAcknowledged = true
    client.sendMessage({ type: 'connection_ack' })
    await connections.endIfRevoked(client, token)
  }

  async #identify(token: string | undefined): Promise<void> {
    const { connections, identify, admit, visitorsMayListen } = this.#deps
    const client = this.#client
    const who = token === undefined ? client.who : await identify(token)
    admit(who)
    if (who.kind === 'anonymous' && !visitorsMayListen) throw unauthorized('authentication required')
    if (client.closed) return
    this.#release = connections.acquire(who)
    client.who = who
  }

  async #subscribe(id: string, text: string): Promise<void> {
    const { graphql, queries, countRequest } = this.#deps
    const client = this.#client
    const { who } = client
    const cancel = new AbortController()
    const running: Running = { isOver: false, close: () => cancel.abort() }
    try {
      if (this.#running.size >= MAX_RUNNING) throw badRequest('too many live queries')
      this.#running.set(id, running)
      this.#budget.spend(COST.dear)
      await countRequest(who)
      const query = await graphql.live(text)
      if (running.isOver) return
      if (!query) return await this.#answer(id, running, cancel.signal, text)
      const listener = this.#listener(id, query.field)
      const handle = await queries.open(who, query, listener)
      running.close = () => handle.close()
      if (running.isOver || client.closed) handle.close()
      else if (handle.first) listener.send(handle.first)
    } catch (error) {
      if (!running.isOver) this.#fail(id, error)
    }
  }

  /** A query or mutation has one response. */
  async #answer(id: string, running: Running, cancelSignal: CancelSignal, text: string): Promise<void> {
    const client = this.#client
    const payload = await this.#deps.graphql.answer({ who: client.who, requestId: randomUUID(), cancelSignal }, text)
    if (running.isOver) return
    this.#running.delete(id)
    client.write(textFrame(Buffer.from(`{"id":${JSON.stringify(id)},"type":"next","payload":${payload}}`)))
    client.sendMessage({ id, type: 'complete' })
  }

  /** Each state of the list is a whole response. */
  #listener(id: string, field: string): LiveListener {
    const head = Buffer.from(`{"id":${JSON.stringify(id)},"type":"next","payload":{"data":{${JSON.stringify(field)}:`)
    const tail = Buffer.from('}}}')
    return {
      send: ({ parts: [rows = '[]'] }: LiveMessage) =>
        this.#client.write(textFrame(Buffer.concat([head, Buffer.from(rows), tail]))),
      slow() {},
      fail: (error) => this.#fail(id, error),
    }
  }

  #fail(id: string, error: unknown): void {
    this.#end(id)
    this.#client.sendMessage({ id, type: 'error', payload: this.#deps.graphql.failures(error) })
  }

  #end(id: string): void {
    const running = this.#running.get(id)
    this.#running.delete(id)
    if (!running) return
    running.isOver = true
    running.close()
  }
}

const isId = (id: unknown): id is string => typeof id === 'string' && id !== ''

/** With or without the word before it. */
function tokenIn(payload: unknown): string | undefined {
  if (typeof payload !== 'object' || payload === null) return undefined
  const { authorization, Authorization } = payload as Record<string, unknown>
  const text = authorization ?? Authorization
  return typeof text === 'string' && text !== '' ? text.replace(/^bearer +/i, '') : undefined
}

function parsed(text: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}
