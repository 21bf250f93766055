import type { Clock } from '../../core/clock.ts'
import { AppError, unauthorized } from '../../core/errors.ts'
import { type Identity, ownerOf } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import { readBody } from '../../http/contract.ts'
import { causesOf, stackOf, toAppError } from '../../http/wire/error-response.ts'
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
import { interestOf } from './subscribe/interest.ts'
import { namesIn, type Selection } from './subscribe/tables.ts'
import { isNothing, minus, NOTHING, newTo, plus, type Wanted } from './subscribe/wanted.ts'

export type ConversationDeps = Omit<RealtimeContext, 'client' | 'requires'> & {
  identify: (bearer: string) => Identity | Promise<Identity>
  /** Throws unless such a caller may listen at all. */
  admit: (who: Identity) => void
  /** Throws when the caller has used up its rate limit. */
  countRequest: (who: Identity) => Promise<void>
  clock: Clock
  observe: Observe
}

type Reply = (more?: object) => void

const AUTH_TIMEOUT_MS = 10_000
const MAX_MISTAKES = 10
/** Messages that wait for their answer before no more are read. */
const MAX_WAITING = 16

/** The messages over one WebSocket: each is answered before the next is read. */
export class Conversation {
  readonly #deps: ConversationDeps
  readonly #client: SocketClient
  readonly #budget: MessageBudget
  #waiting = 0
  #answered: Promise<void> = Promise.resolve()
  #wanted: Wanted = NOTHING
  #subscription: Subscription | undefined
  #mistakes = 0
  /** Gives the place among the caller's connections back. */
  #release: (() => void) | undefined
  #authTimer: NodeJS.Timeout | undefined

  /** `release`: of a caller who is already known. */
  constructor(client: SocketClient, deps: ConversationDeps, release: (() => void) | undefined) {
    this.#client = client
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
    if (this.#subscription) this.#deps.hub.unsubscribe(this.#subscription)
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
      this.#client.sendMessage({ type: 'reply', ref, status: 'error', error: error.errorCode, message: error.message })
      // Of the caller's connections, this one is too many.
      if (message.type === 'auth' && error.errorCode === 'connection_limit') this.#client.end(4429, error.message)
    }
  }

  #onMistake(): void {
    this.#client.sendMessage({ type: 'error', error: 'invalid_body', message: 'invalid message' })
    if (++this.#mistakes >= MAX_MISTAKES) this.#client.end(CLOSE.policy, 'too many invalid messages')
  }

  async #act({ type, fields }: ClientMessage, reply: Reply): Promise<void> {
    switch (type) {
      case 'ping':
        return reply()
      case 'auth':
        await this.#count(COST.dear)
        await this.#authenticate(readBody(authFields, fields).token)
        reply()
        return this.#client.warnOfExpiry()
      case 'subscribe': {
        const { tables, filter, last_id: lastId } = readBody(subscribeFields, fields)
        await this.#count(filter || lastId ? COST.dear : COST.cheap)
        return this.#subscribe(
          { tables: tables === undefined ? undefined : namesIn(tables), filter },
          lastId || undefined,
          reply,
        )
      }
      case 'unsubscribe': {
        this.#budget.spend(COST.cheap)
        const names = namesIn(readBody(unsubscribeFields, fields).tables)
        this.#setWanted(minus(this.#wanted, this.#deps.tables.keysOf(names)))
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
    this.#setWanted(this.#wanted)
    await connections.endIfRevoked(client, token)
  }

  async #subscribe(selection: Selection, lastId: string | undefined, reply: Reply): Promise<void> {
    const { hub, visitorsMayListen, tables, filters } = this.#deps
    const client = this.#client
    const { who } = client
    if (who.kind === 'anonymous' && !visitorsMayListen) throw unauthorized('authentication required')
    const more = await tables.select(who, selection)
    const wanted = plus(this.#wanted, more)
    const interest = interestOf(who, wanted)
    if (interest.isFiltered) filters.requireBudget(interest.payer)
    const added = newTo(more, this.#wanted)
    const { from, isReset, moment } = await hub.startAt(lastId, !isNothing(added))
    if (client.closed) return
    const known = moment && { moment, wanted: added }
    this.#wanted = wanted
    const isPast = lastId !== undefined && !isReset
    if (this.#subscription) {
      const missed = isPast ? { wanted: more, position: from } : undefined
      const position = hub.change(this.#subscription, interest, { missed, known })
      reply({ position: isPast ? from : position })
      if (isReset) client.reset(position)
    } else {
      reply({ position: from })
      if (isReset) client.reset(from)
      this.#subscription = hub.subscribe(client, interest, { from, moment })
    }
  }

  #setWanted(wanted: Wanted): void {
    this.#wanted = wanted
    if (this.#subscription) this.#deps.hub.change(this.#subscription, interestOf(this.#client.who, wanted))
  }
}

const isSameUser = (one: Identity, other: Identity): boolean =>
  one.kind === 'admin' ? other.kind === 'admin' : ownerOf(one) !== undefined && ownerOf(one) === ownerOf(other)
