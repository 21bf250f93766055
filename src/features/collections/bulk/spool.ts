import { type Hash, randomUUID } from 'node:crypto'
import { type FileHandle, open, unlink } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AppError, serverBusy } from '../../../core/errors.ts'
import { Budget } from '../../../core/limits.ts'
import { bodyBytes, textOf } from './body-text.ts'
import { type RowReader, UnreadableError } from './records.ts'

/** A body of an import that has arrived. `evicted`: it gave way to others before its import ended. */
export type SpooledBody = { text(): AsyncIterable<string>; readonly evicted: AbortSignal; close(): Promise<void> }

const IN_MEMORY = 256 * 1024
const READ_BYTES = 64 * 1024
const NEWLINE = 0x0a
/** Of the largest body: what all bodies and those of one address may take, and what each counts as at least. */
const [TOTAL, PER_ADDRESS, AT_LEAST] = [4, 2, 1 / 16]

/**
 * Takes the bodies of imports in before anything is done in PostgreSQL, because a transaction that waits for a client's
 * bytes would hold up every reader of the change log. What waits is bounded; the oldest gives way.
 */
export class Spools {
  readonly #maxBytes: number
  readonly #budget: Budget

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
    this.#budget = new Budget({ total: TOTAL * maxBytes, perKey: PER_ADDRESS * maxBytes })
  }

  /** `reader` sees the first piece, so that a wrong header is refused at once; of an endless line no more is taken. */
  async receive(request: IncomingMessage, address: string, reader: RowReader, digest?: Hash): Promise<SpooledBody> {
    const evicted = new AbortController()
    const reservation = this.#budget.reserve(address, () => evicted.abort(serverBusy()))
    const spool = new Spool()
    const close = async (): Promise<void> => {
      reservation.release()
      await spool.close()
    }
    try {
      reservation.grow(this.#maxBytes * AT_LEAST)
      let lineBytes = 0
      for await (const piece of bodyBytes(request, this.#maxBytes, { signal: evicted.signal })) {
        reservation.grow(piece.length)
        digest?.update(piece)
        const isReadable = !spool.isEmpty || canRead(reader, piece)
        await spool.write(piece)
        const end = piece.lastIndexOf(NEWLINE)
        lineBytes = end === -1 ? lineBytes + piece.length : piece.length - end - 1
        // The import comes to the same place, and says so beside the faults before it.
        if (!isReadable || lineBytes > reader.maxLineBytes) break
      }
    } catch (error) {
      await close()
      throw error
    }
    return { text: () => textOf(spool.pieces()), evicted: evicted.signal, close }
  }
}

/** Throws where the header is wrong. */
function canRead(reader: RowReader, piece: Buffer): boolean {
  try {
    reader.read(piece.toString())
    return true
  } catch (error) {
    if (error instanceof UnreadableError) return false
    throw error
  }
}

/** Bytes in memory while they are few, else in a file without a name, of which nothing is left when the process dies. */
class Spool {
  #few: Buffer[] = []
  #bytes = 0
  #file: FileHandle | undefined

  get isEmpty(): boolean {
    return this.#bytes === 0
  }

  async write(piece: Buffer): Promise<void> {
    this.#bytes += piece.length
    if (!this.#file && this.#bytes <= IN_MEMORY) return void this.#few.push(piece)
    try {
      this.#file ??= await unnamedFile()
      await this.#file.appendFile(Buffer.concat([...this.#few, piece]))
      this.#few = []
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      throw new AppError('insufficient_storage', 'no space left for the import', { cause: error })
    }
  }

  async *pieces(): AsyncGenerator<Buffer> {
    yield* this.#few
    for (let position = 0; this.#file; ) {
      const { bytesRead, buffer } = await this.#file.read({ buffer: Buffer.allocUnsafe(READ_BYTES), position })
      if (bytesRead === 0) return
      yield buffer.subarray(0, bytesRead)
      position += bytesRead
    }
  }

  async close(): Promise<void> {
    this.#few = []
    const file = this.#file
    this.#file = undefined
    await file?.close()
  }
}

async function unnamedFile(): Promise<FileHandle> {
  const path = join(tmpdir(), `svc-import-${randomUUID()}`)
  const file = await open(path, 'wx+', 0o600)
  await unlink(path)
  return file
}
