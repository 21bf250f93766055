import type { FileHandle } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { ByteRange } from './conditions.ts'

/** Bytes to be sent. The receiver must call `sendTo`, `stream` or `close`. */
export interface ByteSource {
  /**
   * Sends as fast as the client reads, then ends the response. A failure closes the connection, so that the client does
   * not take a part for the whole.
   */
  sendTo(response: ServerResponse): void
  /** The bytes for another use; who reads them closes the stream. */
  stream(): Readable
  close(): void
}

export class StreamSource implements ByteSource {
  readonly #stream: Readable

  constructor(stream: Readable) {
    this.#stream = stream
  }

  sendTo(response: ServerResponse): void {
    const stream = this.#stream
    stream.once('error', () => {}) // `close` follows
    stream.once('close', () => {
      if (!stream.readableEnded) response.destroy()
    })
    response.once('close', () => stream.destroy())
    stream.pipe(response)
  }

  stream(): Readable {
    return this.#stream
  }

  close(): void {
    this.#stream.destroy()
  }
}

/** Each read runs in another thread, which costs as much as sending, so pieces are large. */
const PIECE_BYTES = 256 * 1024
const MAX_SPARE = 32
/** Buffers are reused, because the system clears each page of new memory. */
const spare: Buffer[] = []

/** A range of an open file. One buffer suffices: the socket's buffers keep the connection busy during a read. */
export class FileSource implements ByteSource {
  readonly #file: FileHandle
  readonly #range: ByteRange

  constructor(file: FileHandle, range: ByteRange) {
    this.#file = file
    this.#range = range
  }

  sendTo(response: ServerResponse): void {
    this.#copyTo(response)
      .then(
        () => response.end(),
        () => response.destroy(),
      )
      .finally(() => this.close())
  }

  stream(): Readable {
    return this.#file.createReadStream({ ...this.#range, highWaterMark: PIECE_BYTES })
  }

  close(): void {
    this.#file.close().catch(() => {})
  }

  async #copyTo(response: ServerResponse): Promise<void> {
    const { start, end } = this.#range
    const write = writerTo(response)
    const buffer = spare.pop() ?? Buffer.allocUnsafeSlow(PIECE_BYTES)
    for (let at = start; at <= end; ) {
      const { bytesRead } = await this.#file.read(buffer, 0, Math.min(PIECE_BYTES, end + 1 - at), at)
      if (bytesRead === 0) throw new Error('the file is shorter than it was')
      at += bytesRead
      await write(buffer.subarray(0, bytesRead))
    }
    // Not reused after a failure, when the connection may still use it.
    if (spare.length < MAX_SPARE) spare.push(buffer)
  }
}

/** Resolves when a piece was sent. Rejects on `close`, because node drops the callbacks of writes then. */
function writerTo(response: ServerResponse): (piece: Buffer) => Promise<void> {
  let giveUp = (): void => {}
  response.once('close', () => giveUp())
  return (piece) =>
    new Promise((resolve, reject) => {
      giveUp = () => reject(new Error('the client is gone'))
      if (response.destroyed) giveUp()
      else response.write(piece, (error) => (error ? reject(error) : resolve()))
    })
}
