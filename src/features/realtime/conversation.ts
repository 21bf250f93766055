import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../core/clock.ts'
import { AppError, badRequest, unauthorized } from '../../core/errors.ts'
import { type Identity, ownerOf } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import { readBody } from '../../http/contract.ts'
import { causesOf, stackOf, toAppError } from '../../http/wire/error-response.ts'
import type { Channels } from './channels/channels.ts'
import { ChannelSession } from './channels/session.ts'
import type { RealtimeContext } from './context.ts'
import { COST, MessageBudget } from './deliver/message-budget.ts'
import {
  authFields,
  CLOSE,
  type ClientMessage,
  parseMessage,
  subscribeFields,
  unsubscribeFields,
} from './deliver/messages.ts'
import type { Subscription } from './deliver/subscription.ts'
import type { SocketClient } from './deliver/web-socket.ts'
import { LiveSession, type LiveSessionDeps } from './live/session.ts'
import { interestOf } from './subscribe/interest.ts'
import { namesIn, type Selection } from './subscribe/tables.ts'
import { isNothing, minus, NOTHING, newTo, plus, requireFew, type Wanted } from './subscribe/wanted.ts'

export type ConversationDeps = Omit<RealtimeContext, 'client' | 'requires'> & {
  identify: (bearer: string) => Identity | Promise<Identity>
  /** Throws unless such a caller may listen at all. */
  admit: (who: Identity) => void
  /** Throws when the caller has used up its rate limit. */
  countRequest: (who: Identity) => Promise<void>
  clock: Clock
  observe: Observe
  channels: Channels
  live: LiveSessionDeps
}

type Reply = (more?: object) => void

/** Messages whose refusals tell the status too. */
const WITH_CODE: ReadonlySet<ClientMessage['type']> = new Set(['join', 'send', 'presence', 'leave', 'live', 'unlive'])

const AUTH_TIMEOUT_MS = 10_000
const MAX_MISTAKES = 10
/** Messages that wait for their answer before no more are read. */
const MAX_WAITING = 16
/** For so long nothing of a connection is answered after it sent too much, or refusing would itself be the load. */
const REFUSAL_PAUSE_MS = 20

/** The messages over one WebSocket: each is answered before the next is read. */
export class Conversation {
  readonly #deps: ConversationDeps
  readonly #client: SocketClient
  readonly #budget: MessageBudget
  #waiting = 0
  #answered: Promise<void> = Promise.resolve()
  /** By the name that the client gave, or none. */
  readonly #subscriptions = new Map<string | undefined, { wanted: Wanted; subscription: Subscription }>()
  readonly #channels: ChannelSession
  readonly #live: LiveSession
  #mistakes = 0
  /** Gives the place among the caller's connections back. */
  #release: (() => void) | undefined
  #authTimer: NodeJS.Timeout | undefined

  /** `id`: of the connection. `release`: of a caller who is already known. */
  constructor(client: SocketClient, id: string, deps: ConversationDeps, release: (() => void) | undefined) {
    this.#client = client
    this.#channels = new ChannelSession(client, id, deps.channels)
    this.#live = new LiveSession(client, deps.live)
    this.#deps = deps
    this.#budget = new MessageBudget(deps.clock)
    this.#release = release
    if (release) return
    this.#authTimer = setTimeout(() => client.fail(unauthorized('authentication required')), AUTH_TIMEOUT_MS).unref()
  }

  onMessage(data: Buffer, isBinary: boolean): void {
    this.#client.markAlive()
    if (isBinary) this.#client.end(CLOSE.binary, 'messages are text')
    if (this.#client.closed) return
    if (++this.#waiting > MAX_WAITING) this.#client.setPaused(true)
    this.#answered = this.#answered.then(() => this.#answer(data.toString()))
  }

  onClose(): void {
    clearTimeout(this.#authTimer)
    for (const name of this.#subscriptions.keys()) this.#end(name)
    this.#channels.close()
    this.#live.close()
    this.#release?.()
    this.#release = undefined
  }

  async #answer(text: string): Promise<void> {
    if (--this.#waiting === 0) this.#client.setPaused(false)
    if (this.#client.closed) return
    // While messages wait here nothing is read, its pongs neither.
    this.#client.markAlive()
    const message = parseMessage(text)
    if (!message) return this.#onMistake()
    const { ref } = message
    try {
      await this.#act(message, (more) => this.#client.sendMessage({ type: 'reply', ref, status: 'ok', ...more }))
    } catch (thrown) {
      const error = toAppError(thrown)
      if (error.status >= 500) {
        const attrs = { status: error.status, error: causesOf(error), stack: stackOf(thrown) }
        this.#deps.observe({ message: 'realtime: message failed', attrs })
      }
      this.#refuse(message, error)
      // Of the caller's connections, this one is too many.
      if (message.type === 'auth' && error.errorCode === 'connection_limit') this.#client.end(4429, error.message)
      if (error.errorCode === 'rate_limited') await sleep(REFUSAL_PAUSE_MS, undefined, { ref: false })
    }
  }

  /** Who sends to a channel without a ref waits for no reply. */
  #refuse({ type, ref, fields }: ClientMessage, error: AppError): void {
    const { errorCode, status: code, message } = error
    if (type === 'send' && ref === null) {
      const { channel } = fields as { channel?: unknown }
      this.#client.sendMessage({ type: 'error', code, error: errorCode, message, channel })
      return
    }
    const more = WITH_CODE.has(type) ? { code } : {}
    this.#client.sendMessage({ type: 'reply', ref, status: 'error', error: errorCode, message, ...more })
  }

  #onMistake(): void {
    this.#client.sendMessage({ type: 'error', error: 'invalid_body', message: 'invalid message' })
    if (++this.#mistakes >= MAX_MISTAKES) this.#client.end(CLOSE.policy, 'too many invalid messages')
  }

  async #act({ type, ref, fields }: ClientMessage, reply: Reply): Promise<void> {
    switch (type) {
      case 'ping':
        return reply()
      case 'auth':
        await this.#count(COST.dear)
        await this.#authenticate(readBody(authFields, fields).token)
        reply()
        return this.#client.warnOfExpiry()
      case 'subscribe': {
        const { sub, tables, filter, last_id: lastId } = readBody(subscribeFields, fields)
        await this.#count(filter || lastId ? COST.dear : COST.cheap)
        return this.#subscribe(
          sub,
          { tables: tables === undefined ? undefined : namesIn(tables), filter },
          lastId || undefined,
          reply,
        )
      }
      case 'join':
        await this.#count(COST.join)
        return this.#channels.join(fields, reply)
      case 'send':
        await this.#channels.send(fields)
        return ref === null ? undefined : reply()
      case 'presence':
        await this.#channels.changeState(fields)
        return reply()
      case 'leave':
        this.#budget.spend(COST.cheap)
        this.#channels.leave(fields)
        return reply()
      case 'live':
        await this.#count(COST.dear)
        return this.#live.open(fields, reply)
      case 'unlive':
        this.#budget.spend(COST.cheap)
        this.#live.end(fields)
        return reply()
      case 'unsubscribe': {
        this.#budget.spend(COST.cheap)
        const { sub, tables } = readBody(unsubscribeFields, fields)
        if (tables === undefined && sub === undefined) throw badRequest('tables is required', 'validation_failed')
        if (tables === undefined) this.#end(sub)
        else this.#leave(sub, namesIn(tables))
        return reply()
      }
    }
  }

  /** A message that could be a request of its own counts as one. */
  async #count(cost: number): Promise<void> {
    this.#budget.spend(cost)
    await this.#deps.countRequest(this.#client.who)
  }

  async #authenticate(token: string): Promise<void> {
    const { identify, admit, connections } = this.#deps
    const client = this.#client
    const who = await identify(token)
    admit(who)
    if (client.closed) return
    if (client.who.kind === 'anonymous') {
      const release = connections.acquire(who)
      this.#release?.()
      this.#release = release
    } else if (!isSameUser(client.who, who)) throw new AppError('forbidden', 'token belongs to another user')
    clearTimeout(this.#authTimer)
    client.who = who
    for (const [name, { wanted }] of this.#subscriptions) this.#setWanted(name, wanted)
    this.#channels.tokenChanged()
    await this.#live.tokenChanged()
    await connections.endIfRevoked(client, token)
  }

  async #subscribe(
    name: string | undefined,
    selection: Selection,
    lastId: string | undefined,
    reply: Reply,
  ): Promise<void> {
    const { hub, visitorsMayListen, tables, filters } = this.#deps
    const client = this.#client
    const { who } = client
    if (who.kind === 'anonymous' && !visitorsMayListen) throw unauthorized('authentication required')
    const more = await tables.select(who, selection)
    const { wanted: before = NOTHING, subscription } = this.#subscriptions.get(name) ?? {}
    const wanted = plus(before, more)
    const others = [...this.#subscriptions].flatMap(([other, { wanted }]) => (other === name ? [] : [wanted]))
    requireFew([...others, wanted])
    const interest = interestOf(who, wanted)
    if (interest.isFiltered) filters.requireBudget(interest.payer)
    const added = newTo(more, before)
    const { from, isReset, moment } = await hub.startAt(lastId, !isNothing(added))
    if (client.closed) return
    const known = moment && { moment, wanted: added }
    const listener = name === undefined ? client : client.named(name)
    const isPast = lastId !== undefined && !isReset
    if (subscription) {
      this.#subscriptions.set(name, { wanted, subscription })
      const missed = isPast ? { wanted: more, position: from } : undefined
      const position = hub.change(subscription, interest, { missed, known })
      reply({ position: isPast ? from : position })
      if (isReset) listener.reset(position)
    } else {
      reply({ position: from })
      if (isReset) listener.reset(from)
      this.#subscriptions.set(name, { wanted, subscription: hub.subscribe(listener, interest, { from, moment }) })
    }
  }

  #leave(name: string | undefined, tables: readonly string[]): void {
    const { wanted } = this.#subscriptions.get(name) ?? {}
    if (wanted) this.#setWanted(name, minus(wanted, this.#deps.tables.keysOf(tables)))
  }

  #end(name: string | undefined): void {
    const { subscription } = this.#subscriptions.get(name) ?? {}
    this.#subscriptions.delete(name)
    if (subscription) this.#deps.hub.unsubscribe(subscription)
  }

  #setWanted(name: string | undefined, wanted: Wanted): void {
    const { subscription } = this.#subscriptions.get(name) ?? {}
    if (!subscription) return
    this.#subscriptions.set(name, { wanted, subscription })
    this.#deps.hub.change(subscription, interestOf(this.#client.who, wanted))
  }
}

const isSameUser = (one: Identity, other: Identity): boolean =>
  one.kind === 'admin' ? other.kind === 'admin' : ownerOf(one) !== undefined && ownerOf(one) === ownerOf(other)
