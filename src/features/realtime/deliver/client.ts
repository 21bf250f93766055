import type { Writable } from 'node:stream'
import type { Clock } from '../../../core/clock.ts'
import type { AppError } from '../../../core/errors.ts'
import { type Identity, impersonationOf } from '../../../core/identity.ts'
import type { Position } from '../../../db/changes/position.ts'
import type { Encode, EncodedChanges } from '../visibility/encoded-change.ts'

/** How messages become bytes. */
export type FrameFormat = {
  change: Encode
  reset(position: Position): Buffer
  /** Unix seconds. */
  expiring(expiresAt: number): Buffer
}

export type ClientOptions = { who: Identity; bufferSize: number; clock: Clock }

export const EXPIRY_NOTICE_MS = 60_000

/** What a subscription needs of a client. */
export type Listener = Pick<RealtimeClient, 'closed' | 'deliver' | 'reset' | 'drained' | 'drop' | 'fail'>

/**
 * One open connection, whatever it speaks. It holds bytes for its client up to a limit; a client that reads slower than
 * that is dropped.
 */
export abstract class RealtimeClient {
  /** Unix milliseconds, of the token behind its identity. */
  expiresAt = Number.POSITIVE_INFINITY
  /** When this client was last sent an id, from which it would resume. */
  lastIdAt: number
  readonly #out: Writable
  readonly #format: FrameFormat
  readonly #options: ClientOptions
  #who: Identity
  #warnedOf: number | undefined
  #onDrain: (() => void) | undefined

  constructor(out: Writable, format: FrameFormat, options: ClientOptions) {
    this.#who = options.who
    this.who = options.who
    this.lastIdAt = options.clock.now()
    this.#out = out
    this.#format = format
    this.#options = options
    const onDrain = (): void => this.#onDrain?.()
    out.on('drain', onDrain).on('close', onDrain)
  }

  get who(): Identity {
    return this.#who
  }

  set who(who: Identity) {
    this.#who = who
    this.expiresAt = expiryOf(who) ?? Number.POSITIVE_INFINITY
  }

  abstract get closed(): boolean

  get via(): 'stream' | 'websocket' {
    return 'stream'
  }

  /** A sign of life. `position`: everything up to there has been delivered, if the client should know. */
  abstract beat(position: Position | undefined): void
  /** Ends a client that is too far behind. Nothing is lost: it resumes from its last id. */
  abstract drop(): void
  abstract fail(error: AppError): void
  /** The server stops; the client should come back to another one. */
  abstract leave(): void

  write(bytes: Buffer | string): void {
    if (this.closed) return
    if (this.#waiting > this.#options.bufferSize) this.drop()
    else this.#out.write(bytes)
  }

  /** As `write`, of something with an id. */
  send(bytes: Buffer): void {
    this.write(bytes)
    this.lastIdAt = this.#options.clock.now()
  }

  deliver(changes: EncodedChanges): void {
    this.send(changes.as(this.#format.change))
  }

  reset(position: Position): void {
    this.send(this.#format.reset(position))
  }

  /** Resolves when the client has caught up, or is gone. */
  async drained(): Promise<void> {
    while (!this.closed && this.#out.writableNeedDrain && this.#waiting > this.#options.bufferSize / 4) {
      await new Promise<void>((resolve) => {
        this.#onDrain = resolve
      })
    }
  }

  /** Once for each token, a minute before it expires, or at once when less is left. */
  warnOfExpiry(): void {
    const expiry = this.expiresAt
    if (!Number.isFinite(expiry) || this.#warnedOf === expiry) return
    if (this.#options.clock.now() < expiry - EXPIRY_NOTICE_MS) return
    this.#warnedOf = expiry
    this.write(this.#format.expiring(Math.floor(expiry / 1000)))
  }

  /** Bytes the client has not taken yet. */
  get #waiting(): number {
    return this.#out.writableLength
  }
}

/** Unix milliseconds at which the token behind an identity expires; undefined = never. */
export function expiryOf(who: Identity): number | undefined {
  const impersonation = impersonationOf(who)
  if (impersonation) return impersonation.expiresAt * 1000
  if (who.kind === 'user' || who.kind === 'admin' || who.kind === 'mfa') return who.expiresAt * 1000
  return who.kind === 'key' && who.expiresAt !== null ? who.expiresAt * 1000 : undefined
}
