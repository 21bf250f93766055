import type { ServerResponse } from 'node:http'
import type { Position } from '../../db/changes/log.ts'
import { EVENT_STREAM, errorFrame, goodbye, PING, pingAt } from './frames.ts'
import { Subscriber } from './subscriber.ts'
import type { Interest } from './visibility/interest.ts'

const FLUSH_GRACE_MS = 2_000

/** A subscriber that reads server-sent events. */
export class Stream extends Subscriber {
  readonly #response: ServerResponse
  #ended = false

  constructor(interest: Interest, response: ServerResponse, bufferSize: number) {
    super(interest, response, EVENT_STREAM, bufferSize)
    this.#response = response
  }

  override get closed(): boolean {
    return this.#ended || this.#response.destroyed
  }

  override beat(at: Position | undefined): void {
    if (at === undefined) this.write(PING)
    else this.send(pingAt(at))
  }

  override drop(): void {
    this.#ended = true
    this.#response.destroy()
  }

  override fail(code: number, message: string): void {
    this.#end(errorFrame(code, message))
  }

  override leave(): void {
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
