import type { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'

export type ZipEntry = { name: string; size: number; modifiedAt: Date; open(): Promise<Readable | undefined> }

const FULL = 0xffffffff
/** Sizes and checksum follow the bytes; names are UTF-8 (APPNOTE 4.4.4). */
const FLAGS = 0x0808
const STORED = 0

type Written = { name: Buffer; size: number; crc: number; time: number; offset: number }

/**
 * A ZIP archive in pieces, as its entries come: nothing is compressed, and what is kept is the name of each entry. An entry
 * whose bytes are gone is left out; one that fails fails the archive.
 */
export async function* zipOf(entries: AsyncIterable<ZipEntry>): AsyncGenerator<Buffer> {
  const written: Written[] = []
  let offset = 0
  for await (const entry of entries) {
    const bytes = await entry.open()
    if (!bytes) continue
    const name = Buffer.from(entry.name)
    const time = dosTime(entry.modifiedAt)
    const isLarge = entry.size >= FULL
    const start = offset
    const head = localHeader(name, time, isLarge)
    offset += head.length
    yield head
    let [crc, size] = [0, 0]
    for await (const piece of bytes as AsyncIterable<Buffer>) {
      crc = crc32(piece, crc)
      size += piece.length
      offset += piece.length
      yield piece
    }
    if (size !== entry.size) throw new Error('a file of an archive has another size than it should')
    const tail = descriptor(crc, size, isLarge)
    offset += tail.length
    yield tail
    written.push({ name, size, crc, time, offset: start })
  }
  const directory = offset
  for (const one of written) {
    const piece = directoryEntry(one)
    offset += piece.length
    yield piece
  }
  yield endOf(written.length, directory, offset - directory)
}

/** MS-DOS date and time in UTC: two seconds' precision, from 1980 on. */
function dosTime(at: Date): number {
  const year = Math.min(2107, Math.max(1980, at.getUTCFullYear()))
  const date = ((year - 1980) << 9) | ((at.getUTCMonth() + 1) << 5) | at.getUTCDate()
  return date * 0x10000 + ((at.getUTCHours() << 11) | (at.getUTCMinutes() << 5) | (at.getUTCSeconds() >> 1))
}

function localHeader(name: Buffer, time: number, isLarge: boolean): Buffer {
  const head = Buffer.alloc(30)
  head.writeUInt32LE(0x04034b50, 0)
  head.writeUInt16LE(isLarge ? 45 : 20, 4)
  head.writeUInt16LE(FLAGS, 6)
  head.writeUInt16LE(STORED, 8)
  head.writeUInt32LE(time, 10)
  if (isLarge) head.fill(0xff, 18, 26)
  head.writeUInt16LE(name.length, 26)
  // The extra field says that the sizes behind the bytes have 64 bits (4.5.3).
  const extra = isLarge ? extraOf([0, 0]) : Buffer.alloc(0)
  head.writeUInt16LE(extra.length, 28)
  return Buffer.concat([head, name, extra])
}

function extraOf(values: readonly number[]): Buffer {
  const extra = Buffer.alloc(4 + 8 * values.length)
  extra.writeUInt16LE(1, 0)
  extra.writeUInt16LE(8 * values.length, 2)
  for (const [i, value] of values.entries()) extra.writeBigUInt64LE(BigInt(value), 4 + 8 * i)
  return extra
}

function descriptor(crc: number, size: number, isLarge: boolean): Buffer {
  const tail = Buffer.alloc(isLarge ? 24 : 16)
  tail.writeUInt32LE(0x08074b50, 0)
  tail.writeUInt32LE(crc, 4)
  if (isLarge) {
    tail.writeBigUInt64LE(BigInt(size), 8)
    tail.writeBigUInt64LE(BigInt(size), 16)
  } else {
    tail.writeUInt32LE(size, 8)
    tail.writeUInt32LE(size, 12)
  }
  return tail
}

function directoryEntry({ name, size, crc, time, offset }: Written): Buffer {
  const isLarge = size >= FULL || offset >= FULL
  const head = Buffer.alloc(46)
  head.writeUInt32LE(0x02014b50, 0)
  head.writeUInt16LE(isLarge ? 45 : 20, 4)
  head.writeUInt16LE(isLarge ? 45 : 20, 6)
  head.writeUInt16LE(FLAGS, 8)
  head.writeUInt16LE(STORED, 10)
  head.writeUInt32LE(time, 12)
  head.writeUInt32LE(crc, 16)
  head.writeUInt32LE(isLarge ? FULL : size, 20)
  head.writeUInt32LE(isLarge ? FULL : size, 24)
  head.writeUInt16LE(name.length, 28)
  const extra = isLarge ? extraOf([size, size, offset]) : Buffer.alloc(0)
  head.writeUInt16LE(extra.length, 30)
  head.writeUInt32LE(isLarge ? FULL : offset, 42)
  return Buffer.concat([head, name, extra])
}

function endOf(count: number, offset: number, size: number): Buffer {
  const isLarge = count >= 0xffff || offset >= FULL || size >= FULL
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(Math.min(count, 0xffff), 8)
  end.writeUInt16LE(Math.min(count, 0xffff), 10)
  end.writeUInt32LE(Math.min(size, FULL), 12)
  end.writeUInt32LE(Math.min(offset, FULL), 16)
  if (!isLarge) return end
  const large = Buffer.alloc(56)
  large.writeUInt32LE(0x06064b50, 0)
  large.writeBigUInt64LE(44n, 4)
  large.writeUInt16LE(45, 12)
  large.writeUInt16LE(45, 14)
  large.writeBigUInt64LE(BigInt(count), 24)
  large.writeBigUInt64LE(BigInt(count), 32)
  large.writeBigUInt64LE(BigInt(size), 40)
  large.writeBigUInt64LE(BigInt(offset), 48)
  const locator = Buffer.alloc(20)
  locator.writeUInt32LE(0x07064b50, 0)
  locator.writeBigUInt64LE(BigInt(offset + size), 8)
  locator.writeUInt32LE(1, 16)
  return Buffer.concat([large, locator, end])
}
