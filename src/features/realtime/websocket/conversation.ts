import { AppError, unauthorized } from '../../../core/errors.ts'
import type { Identity } from '../../../core/identity.ts'
import type { Observe } from '../../../core/observe.ts'
import type { Position } from '../../../db/changes/log.ts'
import { readBody } from '../../../http/contract.ts'
import { causesOf, toAppError } from '../../../http/wire/error-response.ts'
import { EXPIRED, ownerOf } from '../connections.ts'
import type { Hub } from '../hub.ts'
import { type Asked, interestOf } from '../visibility/interest.ts'
import { minus, plus, type Wanted } from '../visibility/wanted.ts'
import type { SocketClient } from './client.ts'
import { authFields, CLOSE, type ClientMessage, parseMessage, subscribeFields, unsubscribeFields } from './messages.ts'

export type ConversationDeps = {
  hub: Hub
  identify: (bearer: string) => Identity | Promise<Identity>
  /** Throws unless such a caller may listen at all. */
  admit: (who: Identity) => void
  /** Whether callers without a token may. */
  visitorsMayListen: boolean
  takeSeat: (who: Identity) => () => void
  wantedBy: (who: Identity, asked: Asked) => Promise<Wanted>
  /** Keys of those of the tables that there are. */
  tableKeys: (names: readonly string[]) => string[]
  startAt: (asked: string | undefined) => Promise<{ from: Position; isReset: boolean }>
  now: () => number
  observe: Observe
}

const AUTH_TIMEOUT_MS = 10_000
const MAX_MISTAKES = 10
/** Messages that wait for their turn before no more are read. */
const MAX_WAITING = 16

/** What is said over one WebSocket: each message is answered before the next is looked at. */
export class Conversation {
  readonly #deps: ConversationDeps
  readonly #client: SocketClient
  readonly #waiting: string[] = []
  #isAnswering = false
  #isListening = false
  #mistakes = 0
  #leaveSeat: (() => void) | undefined
  #authTimer: NodeJS.Timeout | undefined

  /** `leaveSeat`: of a caller who is already known. */
  constructor(client: SocketClient, deps: ConversationDeps, leaveSeat: (() => void) | undefined) {
    this.#client = client
    this.#deps = deps
    this.#leaveSeat = leaveSeat
    if (client.interest.who.kind !== 'anonymous' || deps.visitorsMayListen) return
    this.#authTimer = setTimeout(() => client.fail(401, 'authentication required'), AUTH_TIMEOUT_MS).unref()
  }

  hear(data: Buffer, isBinary: boolean): void {
    this.#client.heard()
    if (isBinary) this.#client.end(CLOSE.binary, 'messages are text')
    if (this.#client.closed) return
    this.#waiting.push(data.toString())
    if (this.#waiting.length > MAX_WAITING) this.#client.holdBack(true)
    if (!this.#isAnswering) void this.#answerAll()
  }

  ended(): void {
    clearTimeout(this.#authTimer)
    this.#waiting.length = 0
    this.#leaveSeat?.()
    this.#leaveSeat = undefined
  }

  async #answerAll(): Promise<void> {
    this.#isAnswering = true
    for (let text = this.#waiting.shift(); text !== undefined && !this.#client.closed; text = this.#waiting.shift()) {
      await this.#answer(text)
    }
    this.#isAnswering = false
    this.#client.holdBack(false)
  }

  async #answer(text: string): Promise<void> {
    const message = parseMessage(text)
    if (!message) return this.#mistake()
    const { ref } = message
    try {
      await this.#act(message, (more) => this.#client.say({ type: 'reply', ref, status: 'ok', ...more }))
    } catch (thrown) {
      const error = toAppError(thrown)
      if (error.status >= 500) {
        const attrs = { status: error.status, error: causesOf(error) }
        this.#deps.observe({ level: 'warn', message: 'realtime: message failed', attrs })
      }
      this.#client.say({ type: 'reply', ref, status: 'error', message: error.message })
      if (error instanceof NoSeat) this.#client.end(4429, error.message)
    }
  }

  #mistake(): void {
    this.#client.say({ type: 'error', message: 'invalid message' })
    if (++this.#mistakes >= MAX_MISTAKES) this.#client.end(CLOSE.policy, 'too many invalid messages')
  }

  async #act({ type, fields }: ClientMessage, ok: (more?: object) => void): Promise<void> {
    switch (type) {
      case 'ping':
        return ok()
      case 'auth':
        await this.#authenticate(readBody(authFields, fields).token)
        ok()
        return this.#client.warnOfExpiry(this.#deps.now())
      case 'subscribe': {
        const { tables, filter, last_id: lastId } = readBody(subscribeFields, fields)
        return this.#subscribe({ tables: tables === undefined ? undefined : namesOf(tables), filter }, lastId, ok)
      }
      case 'unsubscribe': {
        const keys = this.#deps.tableKeys(namesOf(readBody(unsubscribeFields, fields).tables))
        const { who, wanted } = this.#client.interest
        this.#listenTo(who, minus(wanted, keys))
        return ok()
      }
    }
  }

  async #authenticate(token: string): Promise<void> {
    const { identify, admit } = this.#deps
    const who = await identify(token)
    admit(who)
    if (this.#client.closed) return
    const before = this.#client.interest.who
    if (before.kind === 'anonymous') this.#takeSeat(who)
    else if (!isSameUser(before, who)) throw new AppError('forbidden', 'token belongs to another user')
    clearTimeout(this.#authTimer)
    this.#listenTo(who, this.#client.interest.wanted)
    await this.#requireStillGood(token)
  }

  #takeSeat(who: Identity): void {
    const { takeSeat } = this.#deps
    try {
      const leaveSeat = takeSeat(who)
      this.#leaveSeat?.()
      this.#leaveSeat = leaveSeat
    } catch (error) {
      throw error instanceof AppError ? new NoSeat(error) : error
    }
  }

  /** The token may have been revoked between its check and the moment this connection could hear of it. */
  async #requireStillGood(token: string): Promise<void> {
    try {
      await this.#deps.identify(token)
    } catch (error) {
      if (error instanceof AppError && error.kind === 'unauthorized') this.#client.fail(401, EXPIRED)
    }
  }

  async #subscribe(asked: Asked, lastId: string | undefined, ok: (more: object) => void): Promise<void> {
    const { hub, visitorsMayListen, wantedBy, startAt } = this.#deps
    const client = this.#client
    const { who } = client.interest
    if (who.kind === 'anonymous' && !visitorsMayListen) throw unauthorized('authentication required')
    const more = await wantedBy(who, asked)
    const interest = interestOf(who, plus(client.interest.wanted, more))
    hub.requireBudget(interest)
    const { from, isReset } = await startAt(lastId || undefined)
    if (client.closed) return
    if (this.#isListening) {
      const isPast = lastId && !isReset
      const position = hub.change(client, interest, isPast ? { wanted: more, from } : undefined)
      ok({ position: isPast ? from : position })
    } else {
      this.#isListening = true
      client.interest = interest
      ok({ position: from })
      hub.add(client, from)
    }
    if (isReset) client.reset(client.at)
  }

  #listenTo(who: Identity, wanted: Wanted): void {
    const interest = interestOf(who, wanted)
    if (this.#isListening) this.#deps.hub.change(this.#client, interest)
    else this.#client.interest = interest
  }
}

/** Told in a reply, after which the connection ends. */
class NoSeat extends AppError {
  constructor({ kind, message }: AppError) {
    super(kind, message)
  }
}

/** Names in an array, or as the stream takes them. */
const namesOf = (tables: string | readonly string[]): string[] =>
  (typeof tables === 'string' ? tables.split(',') : tables).map((name) => name.trim()).filter(Boolean)

const isSameUser = (one: Identity, other: Identity): boolean =>
  one.kind === 'admin' ? other.kind === 'admin' : ownerOf(one) !== undefined && ownerOf(one) === ownerOf(other)
