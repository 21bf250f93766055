import type { Clock } from '../../../core/clock.ts'
import { AppError, hasStatus, unauthorized, unavailable } from '../../../core/errors.ts'
import { type Identity, ownerOf } from '../../../core/identity.ts'
import { KeyedLimit } from '../../../core/limits.ts'
import type { Position } from '../../../db/changes/position.ts'
import { EXPIRY_NOTICE_MS, type RealtimeClient } from './client.ts'

type Deps = {
  clock: Clock
  heartbeatSeconds: number
  maxPerOwner: number
  /** An id this old is about to be trimmed from the log. */
  retentionSeconds: number
  identify: (bearer: string) => Identity | Promise<Identity>
  /** A connection of theirs counts as open until the answer is called. */
  opened: (who: Identity) => () => void
}

type Open = {
  /** In which tick of a heartbeat interval this one is sent its sign of life. */
  readonly turn: number
  readonly position: () => Position | undefined
  /** Unix milliseconds. */
  readonly since: number
}

const TICK_MS = 500
const expired = (): AppError => unauthorized('invalid or expired token', 'invalid_token')

/** All clients of this process, whatever they speak: how many each owner may have, their signs of life and their ends. */
export class Connections {
  readonly #deps: Deps
  readonly #open = new Map<RealtimeClient, Open>()
  readonly #limit: KeyedLimit
  readonly #beats: number
  /** One timer for all: thousands of idle connections cost no timers of their own. */
  #timer: NodeJS.Timeout | undefined
  #tick = 0
  #turn = 0
  #isDraining = false

  constructor(deps: Deps) {
    this.#deps = deps
    this.#limit = new KeyedLimit({ perKey: deps.maxPerOwner })
    this.#beats = Math.max(1, Math.round((deps.heartbeatSeconds * 1000) / TICK_MS))
  }

  start(): void {
    this.#timer = setInterval(() => this.#onTick(), TICK_MS).unref()
  }

  get size(): number {
    return this.#open.size
  }

  /** The latest `most`. */
  list(most: number): { who: Identity; since: number; via: RealtimeClient['via'] }[] {
    return [...this.#open].slice(-most).map(([{ who, via }, { since }]) => ({ who, since, via }))
  }

  refuseIfDraining(): void {
    if (this.#isDraining) throw unavailable('server is shutting down', 1, 'shutting_down')
  }

  /** Counts one more connection of theirs; throws when they have too many. The answer gives the place back. */
  acquire(who: Identity): () => void {
    const owner = ownerOf(who)
    const release = owner === undefined ? () => {} : this.#limit.tryAcquire(owner)
    if (!release)
      throw new AppError('connection_limit', 'connection limit exceeded', { headers: { 'Retry-After': '5' } })
    const closed = this.#deps.opened(who)
    return () => {
      closed()
      release()
    }
  }

  /** `position`: up to where everything has been delivered. */
  add(client: RealtimeClient, position: () => Position | undefined = () => undefined): void {
    this.#open.set(client, { turn: this.#turn++ % this.#beats, position, since: this.#deps.clock.now() })
    client.warnOfExpiry()
  }

  remove(client: RealtimeClient): void {
    this.#open.delete(client)
  }

  /** A token may have been revoked between its check and the moment from which its connection hears of revocations. */
  async endIfRevoked(client: RealtimeClient, bearer: string | undefined): Promise<void> {
    if (bearer === undefined) return
    try {
      await this.#deps.identify(bearer)
    } catch (error) {
      if (hasStatus(error, 401)) client.fail(expired())
    }
  }

  endRevoked(isRevoked: (who: Identity) => boolean): void {
    for (const client of this.#open.keys()) if (isRevoked(client.who)) client.fail(expired())
  }

  /** Sends the clients to another process. */
  drain(): void {
    this.#isDraining = true
    for (const client of this.#open.keys()) client.leave()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.drain()
  }

  #onTick(): void {
    const now = this.#deps.clock.now()
    const due = this.#tick++ % this.#beats
    for (const [client, { turn, position }] of this.#open) {
      // Of thousands each is looked at each time, so that this is all for most of them.
      if (now >= client.expiresAt) client.fail(expired())
      else {
        if (now >= client.expiresAt - EXPIRY_NOTICE_MS) client.warnOfExpiry()
        if (turn !== due) continue
        // A client whose tables are quiet would otherwise keep an id that is about to be trimmed.
        const isOld = now - client.lastIdAt > this.#deps.retentionSeconds * 250
        client.beat(isOld ? position() : undefined)
      }
    }
  }
}
