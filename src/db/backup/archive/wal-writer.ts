import { randomBytes } from 'node:crypto'
import { inParallel } from '../../../core/limits.ts'
import { CHUNK, compress, type Seals, type SealWriter } from '../stored/seal.ts'
import { pieceName } from '../stored/wal.ts'
import type { BackupTarget, Growing } from '../target/target.ts'

type Piece = { name: string; start: bigint; end: bigint }

/** Larger segments stay in pieces. */
const MOST_HELD = 64n * 2n ** 20n

const AT_ONCE = 4

const newMark = (): string => randomBytes(3).toString('hex')

/**
 * Writes the log to a target: a file that grows for each segment where the target has such, else an object for each
 * flush, which are put together when the segment is whole.
 */
export class WalWriter {
  readonly #target: BackupTarget
  readonly #seals: Seals
  readonly #archive: string
  readonly #segmentSize: bigint
  #position: bigint
  #growing: { file: Growing; writer: SealWriter } | undefined
  /** Pieces of the segment under way, and their bytes. */
  #pieces: Piece[] = []
  #bytes: Buffer[] = []
  #joining: Promise<void> | undefined

  constructor(options: { target: BackupTarget; seals: Seals; archive: string; segmentSize: number; from: bigint }) {
    this.#target = options.target
    this.#seals = options.seals
    this.#archive = options.archive
    this.#segmentSize = BigInt(options.segmentSize)
    this.#position = options.from
  }

  /** Up to where everything is durable. */
  get position(): bigint {
    return this.#position
  }

  /** Resolves when the bytes, which follow the position, are durable. */
  async write(bytes: Buffer): Promise<void> {
    for (let rest = bytes; rest.length > 0; ) {
      const left = Number(this.#segmentSize - (this.#position % this.#segmentSize))
      const part = rest.subarray(0, left)
      try {
        await (this.#target.append ? this.#append(part) : this.#put(part))
      } catch (error) {
        // It may end in half a chunk: what follows goes into another piece.
        await this.#closeFile().catch(() => {})
        throw error
      }
      this.#position += BigInt(part.length)
      rest = rest.subarray(part.length)
      if (part.length === left) await this.#endSegment()
    }
  }

  async close(): Promise<void> {
    await this.#closeFile()
    await this.#joining
  }

  async #closeFile(): Promise<void> {
    const growing = this.#growing
    this.#growing = undefined
    await growing?.file.close()
  }

  async #append(bytes: Buffer): Promise<void> {
    if (!this.#growing) {
      const name = pieceName(this.#archive, this.#position, newMark())
      const file = await this.#target.append?.(name)
      if (!file) throw new Error('the target has no files that grow')
      const writer = await this.#seals.writer(name)
      this.#growing = { file, writer }
      await file.append(Buffer.concat([writer.header, ...(await chunksOf(writer, bytes))]))
    } else {
      await this.#growing.file.append(Buffer.concat(await chunksOf(this.#growing.writer, bytes)))
    }
  }

  async #put(bytes: Buffer): Promise<void> {
    const name = pieceName(this.#archive, this.#position, newMark())
    await this.#target.put(name, this.#seals.seal(name, [bytes]))
    this.#pieces.push({ name, start: this.#position, end: this.#position + BigInt(bytes.length) })
    if (this.#segmentSize <= MOST_HELD) this.#bytes.push(bytes)
  }

  async #endSegment(): Promise<void> {
    await this.#closeFile()
    const pieces = this.#pieces
    const bytes = this.#bytes
    this.#pieces = []
    this.#bytes = []
    // Commits do not wait for it, and what is not put together stays in pieces.
    if (pieces.length < 2 || bytes.length === 0 || this.#joining) return
    this.#joining = this.#join(pieces, bytes)
      .catch(() => {})
      .finally(() => {
        this.#joining = undefined
      })
  }

  async #join(pieces: readonly Piece[], bytes: readonly Buffer[]): Promise<void> {
    const whole = pieceName(this.#archive, pieces[0]?.start ?? 0n, newMark())
    await this.#target.put(whole, this.#seals.seal(whole, bytes))
    await inParallel(pieces, AT_ONCE, ({ name }) => this.#target.remove(name))
  }
}

async function chunksOf(writer: SealWriter, bytes: Buffer): Promise<Buffer[]> {
  const chunks: Buffer[] = []
  for (let at = 0; at < bytes.length; at += CHUNK) {
    chunks.push(writer.chunk(await compress(bytes.subarray(at, at + CHUNK)), false))
  }
  return chunks
}
