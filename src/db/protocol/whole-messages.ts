/** One byte for the type of a message, four for its length, which includes these four. */
const TYPE = 1
const HEADER = 5
/** PostgreSQL sends nothing longer; a length beyond it is no length. */
const LONGEST = 2 ** 30
/** At most in one piece; a longer message is put together in a buffer of its own. */
export const READ_BYTES = 64 * 1024

/** What the connections of one pool share while they receive. */
export class ReceiveBuffers {
  #place: Buffer | undefined
  #arriving = 0

  /** Where sockets read to, one at a time. */
  get place(): Buffer {
    this.#place ??= Buffer.allocUnsafeSlow(READ_BYTES)
    return this.#place
  }

  /** Bytes set aside for long messages under way. */
  get arriving(): number {
    return this.#arriving
  }

  set(bytes: number): Buffer {
    this.#arriving += bytes
    return Buffer.allocUnsafeSlow(bytes)
  }

  release(buffer: Buffer): void {
    this.#arriving -= buffer.length
  }
}

type Messages = {
  receiving: ReceiveBuffers
  /** Takes whole messages. */
  feed(bytes: Buffer): void
  /** What arrives is not the protocol. */
  refuse(reason: string): void
  /** Whether so many bytes of one message may be kept; what may not is read and thrown away. */
  mayHold(bytes: number): boolean
}

/**
 * Cuts what arrives into whole messages. A long one is put together in one buffer of its size, which stands in front of
 * it; pg's parser would use buffers that double, several times the message.
 */
export function wholeMessages({ receiving, feed, refuse, mayHold }: Messages) {
  /** A message under way. */
  let message: Buffer | undefined
  let filled = 0
  /** What came of the next header. */
  let start: Buffer | undefined
  /** What is still to come of a message that may not be held. */
  let unwanted = 0

  const drop = (): Buffer | undefined => {
    const dropped = message
    if (dropped) receiving.release(dropped)
    message = undefined
    return dropped
  }

  const take = (bytes: Buffer): void => {
    let chunk = bytes
    if (unwanted > 0) {
      const skipped = Math.min(unwanted, chunk.length)
      unwanted -= skipped
      if (skipped === chunk.length) return
      chunk = chunk.subarray(skipped)
    }
    if (message) {
      const taken = chunk.copy(message, filled)
      filled += taken
      if (filled < message.length) return
      feed(drop() as Buffer)
      if (taken === chunk.length) return
      chunk = chunk.subarray(taken)
    } else if (start) {
      chunk = Buffer.concat([start, chunk])
      start = undefined
    }
    let end = 0
    let size = 0
    while (chunk.length - end >= HEADER) {
      size = TYPE + chunk.readUInt32BE(end + TYPE)
      if (size > LONGEST) {
        refuse('PostgreSQL sent a message without a sensible length')
        return
      }
      if (end + size > chunk.length) break
      end += size
    }
    if (end > 0) feed(end === chunk.length ? chunk : chunk.subarray(0, end))
    if (end === chunk.length) return
    // Copied, so that a few bytes do not keep the whole chunk.
    if (chunk.length - end < HEADER) start = Buffer.from(chunk.subarray(end))
    else if (!mayHold(size)) unwanted = size - (chunk.length - end)
    else {
      message = receiving.set(size)
      filled = chunk.copy(message, 0, end)
    }
  }

  return { take, drop }
}
