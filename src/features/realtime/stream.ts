import type { ServerResponse } from 'node:http'
import type { Identity } from '../../core/identity.ts'
import type { Position } from '../../db/changes/log.ts'
import { errorFrame, expiringFrame, goodbye } from './frames.ts'
import type { Interest } from './visibility/interest.ts'

const FLUSH_GRACE_MS = 2_000
const EXPIRY_NOTICE_MS = 60_000

/** One open connection. It holds bytes for its client up to a limit; a client that reads slower than that is let go. */
export class Stream {
  readonly interest: Interest
  /** Whom its limit counts on; undefined = nobody. */
  readonly owner: string | undefined
  /** Batches up to this one are not for it: it has them already, or never asked for them. */
  joinedAt = Number.POSITIVE_INFINITY
  /** The last id this client was sent, and when. */
  lastId: Position
  lastIdAt: number
  readonly #response: ServerResponse
  readonly #bufferSize: number
  #ended = false
  #warned = false

  constructor(
    interest: Interest,
    owner: string | undefined,
    response: ServerResponse,
    bufferSize: number,
    from: Position,
  ) {
    this.interest = interest
    this.owner = owner
    this.lastId = from
    this.lastIdAt = Date.now()
    this.#response = response
    this.#bufferSize = bufferSize
  }

  get closed(): boolean {
    return this.#ended || this.#response.destroyed
  }

  /** Bytes the client has not taken yet. */
  get waiting(): number {
    return this.#response.writableLength
  }

  write(bytes: Buffer | string): void {
    if (this.closed) return
    if (this.waiting > this.#bufferSize) this.drop()
    else this.#response.write(bytes)
  }

  /** As `write`, remembering where the client would resume. */
  send(bytes: Buffer, id: Position): void {
    this.write(bytes)
    this.lastId = id
    this.lastIdAt = Date.now()
  }

  /** Resolves when the client has caught up, or is gone. */
  async drained(): Promise<void> {
    while (!this.closed && this.waiting > this.#bufferSize / 4) {
      await new Promise<void>((resolve) => {
        const response = this.#response
        const done = (): void => {
          clearTimeout(timer)
          response.off('drain', done).off('close', done)
          resolve()
        }
        const timer = setTimeout(done, 1_000)
        response.once('drain', done).once('close', done)
      })
    }
  }

  /** Nothing is lost: it resumes from its last id. */
  drop(): void {
    this.#ended = true
    this.#response.destroy()
  }

  /** Once, a minute before its token dies, or at once when less is left. */
  warnOfExpiry(now: number, expiry: number): void {
    if (this.#warned || now < expiry - EXPIRY_NOTICE_MS) return
    this.#warned = true
    this.write(expiringFrame(Math.floor(expiry / 1000)))
  }

  fail(code: number, message: string): void {
    this.#end(errorFrame(code, message))
  }

  /** The server stops; the client should come back to another one. */
  leave(): void {
    this.#end(goodbye())
  }

  #end(lastWords: string): void {
    if (this.closed) return
    this.#ended = true
    const response = this.#response
    response.end(lastWords)
    const timer = setTimeout(() => response.destroy(), FLUSH_GRACE_MS)
    response.once('close', () => clearTimeout(timer))
  }
}

export type Ends = (who: Identity) => boolean

/** Unix milliseconds at which the token behind an identity dies; undefined = never. */
export function expiryOf(who: Identity): number | undefined {
  if (who.kind === 'user' || who.kind === 'admin' || who.kind === 'mfa') return who.expiresAt * 1000
  return who.kind === 'key' && who.expiresAt !== null ? who.expiresAt * 1000 : undefined
}
