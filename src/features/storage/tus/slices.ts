import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { AppError } from '../../../core/errors.ts'

/**
 * The body of a request in slices, each of which can be stored before the next one is read. A body that is cut off ends where
 * it is cut: what has arrived is worth keeping.
 */
export class BodySlices {
  readonly #pieces: AsyncIterator<Buffer>
  #left: Buffer | undefined
  #awaited: number
  #isOver = false
  /** The connection is gone. */
  wasCut = false

  /** `most`: bytes that are still awaited; more is refused. */
  constructor(request: IncomingMessage, most: number, signal: AbortSignal) {
    this.#awaited = most
    // Leaving the iterator must not end the connection: the client gets its answer.
    this.#pieces = request.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>
    const onAbort = (): void => void request.destroy()
    signal.addEventListener('abort', onAbort, { once: true })
    request.once('close', () => signal.removeEventListener('abort', onAbort))
  }

  /** False at the end. */
  async hasMore(): Promise<boolean> {
    while (!this.#left && !this.#isOver) {
      try {
        const { value, done } = await this.#pieces.next()
        if (done) this.#isOver = true
        else if (value.length > 0) this.#take(value)
      } catch (error) {
        if (error instanceof AppError) throw error
        this.#isOver = this.wasCut = true
      }
    }
    return this.#left !== undefined
  }

  #take(piece: Buffer): void {
    if (piece.length > this.#awaited) {
      this.#isOver = true
      throw new AppError('payload_too_large', 'more bytes than Upload-Length')
    }
    this.#awaited -= piece.length
    this.#left = piece
  }

  /** The next bytes, at most so many. To be read to its end. */
  slice(bytes: number): Readable {
    return Readable.from(this.#upTo(bytes), { objectMode: false, highWaterMark: 256 * 1024 })
  }

  async *#upTo(bytes: number): AsyncGenerator<Buffer> {
    for (let room = bytes; room > 0 && (await this.hasMore()); ) {
      const piece = this.#left ?? Buffer.alloc(0)
      const taken = piece.subarray(0, room)
      this.#left = piece.length > room ? piece.subarray(room) : undefined
      room -= taken.length
      yield taken
    }
  }
}
