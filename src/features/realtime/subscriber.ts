import type { Writable } from 'node:stream'
import type { Identity } from '../../core/identity.ts'
import type { Position } from '../../db/changes/log.ts'
import type { Channel } from './channel.ts'
import type { ToldChange } from './told-change.ts'
import type { Interest } from './visibility/interest.ts'
import type { Wanted } from './visibility/wanted.ts'

/** How what a subscriber is told becomes bytes. */
export type Format = {
  change(told: ToldChange): Buffer
  reset(position: Position): Buffer
  /** Unix seconds. */
  expiring(expiresAt: number): Buffer
}

const EXPIRY_NOTICE_MS = 60_000
/** The safety net of a replay, should it hear of no drain. */
const LOOK_AGAIN_MS = 250

/**
 * One open connection, whatever it speaks. It holds bytes for its client up to a limit; a client that reads slower than that
 * is let go.
 */
export abstract class Subscriber {
  interest: Interest
  /** Where it hears of the present together with others; undefined while it is brought there. */
  channel: Channel | undefined
  /** Batches up to this one are not for it: it has them already, or never asked for them. */
  joinedAt: number = Number.POSITIVE_INFINITY
  /** Up to here it has been told everything, as of when it joined its channel or on its way there. */
  at: Position = ''
  /** Parts of the past that it asked for when it was already further. */
  readonly missed: { wanted: Wanted; from: Position }[] = []
  /** When this client was last sent an id, from which it would resume. */
  lastIdAt: number = Date.now()
  readonly format: Format
  readonly #out: Writable
  readonly #bufferSize: number
  #warnedOf: number | undefined

  constructor(interest: Interest, out: Writable, format: Format, bufferSize: number) {
    this.interest = interest
    this.format = format
    this.#out = out
    this.#bufferSize = bufferSize
  }

  abstract get closed(): boolean
  /** A sign of life. `at`: everything up to there has been told, if that is worth saying. */
  abstract beat(at: Position | undefined): void
  /** Nothing is lost: it resumes from its last id. */
  abstract drop(): void
  abstract fail(code: number, message: string): void
  /** The server stops; the client should come back to another one. */
  abstract leave(): void

  write(bytes: Buffer | string): void {
    if (this.closed) return
    if (this.#waiting > this.#bufferSize) this.drop()
    else this.#out.write(bytes)
  }

  /** As `write`, of something with an id. */
  send(bytes: Buffer): void {
    this.write(bytes)
    this.lastIdAt = Date.now()
  }

  reset(position: Position): void {
    this.send(this.format.reset(position))
  }

  /** Resolves when the client has caught up, or is gone. */
  async drained(): Promise<void> {
    while (!this.closed && this.#waiting > this.#bufferSize / 4) {
      await new Promise<void>((resolve) => {
        const out = this.#out
        const done = (): void => {
          clearTimeout(timer)
          out.off('drain', done).off('close', done)
          resolve()
        }
        const timer = setTimeout(done, LOOK_AGAIN_MS)
        out.once('drain', done).once('close', done)
      })
    }
  }

  /** Once for each token, a minute before it dies, or at once when less is left. */
  warnOfExpiry(now: number): void {
    const expiry = expiryOf(this.interest.who)
    if (expiry === undefined || this.#warnedOf === expiry || now < expiry - EXPIRY_NOTICE_MS) return
    this.#warnedOf = expiry
    this.write(this.format.expiring(Math.floor(expiry / 1000)))
  }

  /** Bytes the client has not taken yet. */
  get #waiting(): number {
    return this.#out.writableLength
  }
}

/** Unix milliseconds at which the token behind an identity dies; undefined = never. */
export function expiryOf(who: Identity): number | undefined {
  if (who.kind === 'user' || who.kind === 'admin' || who.kind === 'mfa') return who.expiresAt * 1000
  return who.kind === 'key' && who.expiresAt !== null ? who.expiresAt * 1000 : undefined
}
