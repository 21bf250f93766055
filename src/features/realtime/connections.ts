import type { Clock } from '../../core/clock.ts'
import { AppError } from '../../core/errors.ts'
import { type Identity, userIdOf } from '../../core/identity.ts'
import type { Position } from '../../db/changes/log.ts'
import { expiryOf, type Subscriber } from './subscriber.ts'

type Deps = {
  clock: Clock
  heartbeatSeconds: number
  maxPerOwner: number
  /** A connection of theirs counts as open until the answer is called. */
  opened: (who: Identity) => () => void
  /** Up to where this one has been told everything, if its client should know. */
  worthSaying: (subscriber: Subscriber) => Position | undefined
}

const TICK_MS = 500
export const EXPIRED = 'invalid or expired token'

/** All that are open in this process, whatever they speak: how many each may have, their signs of life and their ends. */
export class Connections {
  readonly #deps: Deps
  readonly #open = new Map<Subscriber, { turn: number }>()
  readonly #perOwner = new Map<string, number>()
  readonly #beats: number
  /** One timer for all: thousands of idle connections cost no timers of their own. */
  #timer: NodeJS.Timeout | undefined
  #tick = 0
  #turn = 0

  constructor(deps: Deps) {
    this.#deps = deps
    this.#beats = Math.max(1, Math.round((deps.heartbeatSeconds * 1000) / TICK_MS))
  }

  start(): void {
    this.#timer = setInterval(() => this.#look(), TICK_MS).unref()
  }

  get size(): number {
    return this.#open.size
  }

  /** One more connection of theirs; throws when they have too many. The answer gives the seat back. */
  takeSeat(who: Identity): () => void {
    const owner = ownerOf(who)
    const open = (owner !== undefined && this.#perOwner.get(owner)) || 0
    if (open >= this.#deps.maxPerOwner) {
      throw new AppError('rate_limited', 'connection limit exceeded', { headers: { 'Retry-After': '5' } })
    }
    if (owner !== undefined) this.#perOwner.set(owner, open + 1)
    const closed = this.#deps.opened(who)
    return () => {
      closed()
      if (owner !== undefined) this.#giveSeatBack(owner)
    }
  }

  add(subscriber: Subscriber): void {
    this.#open.set(subscriber, { turn: this.#turn++ % this.#beats })
    subscriber.warnOfExpiry(this.#deps.clock.now())
  }

  remove(subscriber: Subscriber): void {
    this.#open.delete(subscriber)
  }

  endThose(ends: (who: Identity) => boolean): void {
    for (const one of this.#open.keys()) if (ends(one.interest.who)) one.fail(401, EXPIRED)
  }

  /** The clients come back to another process. */
  sendAway(): void {
    for (const one of this.#open.keys()) one.leave()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.sendAway()
  }

  #look(): void {
    const now = this.#deps.clock.now()
    const turn = this.#tick++ % this.#beats
    for (const [one, its] of this.#open) {
      const expiry = expiryOf(one.interest.who)
      if (expiry !== undefined && now >= expiry) one.fail(401, EXPIRED)
      else {
        one.warnOfExpiry(now)
        if (its.turn === turn) one.beat(this.#deps.worthSaying(one))
      }
    }
  }

  #giveSeatBack(owner: string): void {
    const open = (this.#perOwner.get(owner) ?? 1) - 1
    if (open > 0) this.#perOwner.set(owner, open)
    else this.#perOwner.delete(owner)
  }
}

/** On whom the limit of connections counts; undefined = nobody. */
export const ownerOf = (who: Identity): string | undefined =>
  userIdOf(who) ?? (who.kind === 'key' ? who.keyId : undefined)
