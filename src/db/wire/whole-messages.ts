import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type pg from 'pg'

/** One byte says what a message is, four how long it is, themselves included. */
const TYPE = 1
const HEADER = 5
/** PostgreSQL sends nothing longer; a length beyond it is no length. */
const LONGEST = 2 ** 30

/** Bytes set aside for messages under way, over all connections of the process. */
let arriving = 0
export const arrivingBytes = (): number => arriving

/** What a connection has to say about the messages that arrive on it. */
export type Reception = {
  /** Whether so many bytes of one message may be kept. */
  mayHold?: (bytes: number) => boolean
  /**
   * Takes whole messages in place of the driver, and leaves to it what it does not read itself. The bytes are the next
   * read's as soon as it returns.
   */
  take?: (messages: Buffer, driver: (messages: Buffer) => void) => void
}

/** The parts of the driver's connection that are used here; the driver's types do not declare them. */
type Wire = { ssl: unknown; stream: Duplex; attachListeners(stream: Duplex): void }

/**
 * Gives the driver's parser whole messages. Left alone it puts a long one together in buffers that double, which takes
 * several times the message in memory; the length stands in front, so that one buffer of that size is enough, and
 * `mayHold` can be asked first whether it is too much. What may not be held is read and thrown away.
 */
export function feedWholeMessages(client: pg.Client, { mayHold, take }: Reception = {}): void {
  const wire = (client as unknown as { connection: Wire }).connection
  const attach = wire.attachListeners
  let receive: (bytes: Buffer) => void = () => {}
  // TLS reads from its socket by itself.
  const isInPlace = take !== undefined && !wire.ssl
  if (isInPlace) wire.stream = socketInPlace((bytes) => receive(bytes))
  wire.attachListeners = function (stream) {
    attach.call(this, stream)
    const [parse, ...others] = stream.listeners('data') as ((bytes: Buffer) => void)[]
    if (!parse || others.length > 0) return
    stream.off('data', parse)
    const refuse = (reason: string): unknown => stream.destroy(new Error(reason))
    const feed = take ? (bytes: Buffer) => take(bytes, parse) : parse
    const messages = wholeMessages(feed, refuse, mayHold)
    receive = messages.take
    if (!isInPlace) stream.on('data', receive)
    stream.once('close', messages.drop)
  }
}

/** At most in one piece; a longer message is put together in a buffer of its own. */
export const READ_BYTES = 64 * 1024
/** Where all sockets read to, one at a time. */
const PLACE = Buffer.allocUnsafeSlow(READ_BYTES)

/** Node would set memory aside for each read, which is most of what a long answer leaves to be collected. */
function socketInPlace(receive: (bytes: Buffer) => void): Socket {
  const callback = (count: number, bytes: Uint8Array): boolean => {
    receive((bytes as Buffer).subarray(0, count))
    return true
  }
  return new Socket({ onread: { buffer: PLACE, callback } } as ConstructorParameters<typeof Socket>[0])
}

export function wholeMessages(
  feed: (bytes: Buffer) => void,
  refuse: (reason: string) => void,
  mayHold: (bytes: number) => boolean = () => true,
) {
  /** A message under way, in a buffer of its size. */
  let message: Buffer | undefined
  let filled = 0
  /** What came of the next header. */
  let start: Buffer | undefined
  /** What is still to come of a message that may not be held. */
  let unwanted = 0

  const drop = (): Buffer | undefined => {
    const dropped = message
    arriving -= dropped?.length ?? 0
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
      message = Buffer.allocUnsafeSlow(size)
      arriving += size
      filled = chunk.copy(message, 0, end)
    }
  }

  return { take, drop }
}
