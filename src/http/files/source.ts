import type { FileHandle } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { ByteRange } from './conditions.ts'

/** Bytes that are there to be sent. Whoever is given them sends them, or closes them. */
export interface ByteSource {
  /**
   * As fast as the client reads; then the response ends. What breaks in the middle closes the connection, so that nobody
   * takes a part for the whole.
   */
  sendTo(response: ServerResponse): void
  close(): void
}

export class StreamSource implements ByteSource {
  readonly #stream: Readable

  constructor(stream: Readable) {
    this.#stream = stream
  }

  sendTo(response: ServerResponse): void {
    const stream = this.#stream
    stream.once('error', () => {}) // it closes next, before its end
    stream.once('close', () => {
      if (!stream.readableEnded) response.destroy()
    })
    response.once('close', () => stream.destroy())
    stream.pipe(response)
  }

  close(): void {
    this.#stream.destroy()
  }
}

/** Handing a read to another thread costs as much as sending the piece, so pieces are large. */
const PIECE_BYTES = 256 * 1024
const MAX_SPARE = 32
/** New memory for every piece would cost more than its bytes: the system clears each page of it. */
const spare: Buffer[] = []

/** A part of an open file, through one buffer: the system's own buffers keep the connection busy while it is filled. */
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
    // After a failure the connection may still hold it.
    if (spare.length < MAX_SPARE) spare.push(buffer)
  }
}

/** Resolves when a piece has left. Who goes away takes the answers to writes along. */
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
