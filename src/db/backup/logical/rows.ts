import { SealError } from '../stored/seal.ts'

/** A frame: the number of a table, the number of bytes, and bytes of its COPY. */
const HEADER = 8
const MOST_FRAME = 2 ** 20

/** Rows of one table as frames; a table without rows has none. */
export async function* framesOf(table: number, parts: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let waiting: Buffer[] = []
  let bytes = 0
  const frame = (): Buffer => {
    const head = Buffer.alloc(HEADER)
    head.writeUInt32BE(table, 0)
    head.writeUInt32BE(bytes, 4)
    const whole = Buffer.concat([head, ...waiting])
    waiting = []
    bytes = 0
    return whole
  }
  for await (const part of parts) {
    for (let at = 0; at < part.length; at += MOST_FRAME) {
      const piece = part.subarray(at, at + MOST_FRAME)
      if (bytes > 0 && bytes + piece.length > MOST_FRAME) yield frame()
      waiting.push(piece)
      bytes += piece.length
    }
  }
  if (bytes > 0) yield frame()
}

type Frame = { table: number; bytes: Buffer }

/** Tables in their order, each with its bytes; the bytes of one are read before the next is. */
export async function* copiedTables(
  source: AsyncIterable<Buffer>,
  most: number,
): AsyncGenerator<{ table: number; bytes: AsyncIterable<Buffer> }> {
  const frames = readFrames(source, most)
  let next = await frames.next()
  while (!next.done) {
    const { table } = next.value
    async function* bytes(): AsyncGenerator<Buffer> {
      while (!next.done && next.value.table === table) {
        yield next.value.bytes
        next = await frames.next()
      }
    }
    yield { table, bytes: bytes() }
    while (!next.done && next.value.table === table) next = await frames.next()
  }
}

async function* readFrames(source: AsyncIterable<Buffer>, most: number): AsyncGenerator<Frame> {
  let rest: Buffer = Buffer.alloc(0)
  let last = 0
  for await (const part of source) {
    rest = rest.length === 0 ? part : Buffer.concat([rest, part])
    while (rest.length >= HEADER) {
      const [table, length] = [rest.readUInt32BE(0), rest.readUInt32BE(4)]
      if (length > MOST_FRAME || table >= most || table < last) throw new SealError('the rows of the copy are no rows')
      if (rest.length < HEADER + length) break
      yield { table, bytes: rest.subarray(HEADER, HEADER + length) }
      last = table
      rest = rest.subarray(HEADER + length)
    }
  }
  if (rest.length > 0) throw new SealError('the rows of the copy end too early')
}
