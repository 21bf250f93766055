/** An entry of a tar archive as PostgreSQL writes it (ustar, without extensions). */
export type TarEntry = { name: string; type: 'file' | 'directory' | 'link' | 'other'; size: number }

export type TarReader = {
  onEntry(entry: TarEntry): void
  /** Bytes of the last entry; good until the call ends. */
  onBytes(bytes: Buffer): Promise<void> | void
  onEntryEnd(): Promise<void> | void
}

const BLOCK = 512
const text = (block: Buffer, at: number, length: number): string => {
  const field = block.subarray(at, at + length)
  const end = field.indexOf(0)
  return field.toString('utf8', 0, end < 0 ? length : end)
}

const TYPES: ReadonlyMap<string, TarEntry['type']> = new Map([
  ['0', 'file'],
  ['\0', 'file'],
  ['5', 'directory'],
  ['2', 'link'],
  ['1', 'link'],
])

/** Reads one archive that arrives in pieces. */
export class TarParser {
  readonly #reader: TarReader
  #block: Buffer = Buffer.alloc(0)
  #left = 0
  #padding = 0
  #isOver = false
  #isInEntry = false
  #position = 0

  constructor(reader: TarReader) {
    this.#reader = reader
  }

  /** Bytes of the archive that were read; in `onEntry`, where the bytes of the entry begin. */
  get position(): number {
    return this.#position
  }

  async write(bytes: Buffer): Promise<void> {
    const start = this.#position
    let rest = bytes
    while (rest.length > 0) {
      if (this.#left > 0) {
        const part = rest.subarray(0, this.#left)
        this.#left -= part.length
        rest = rest.subarray(part.length)
        await this.#reader.onBytes(part)
      } else if (this.#isInEntry) {
        const skipped = Math.min(this.#padding, rest.length)
        this.#padding -= skipped
        rest = rest.subarray(skipped)
        if (this.#padding === 0) await this.#endEntry()
      } else {
        const wanted = BLOCK - this.#block.length
        this.#block = Buffer.concat([this.#block, rest.subarray(0, wanted)])
        rest = rest.subarray(wanted)
        this.#position = start + bytes.length - rest.length
        if (this.#block.length === BLOCK) await this.#header()
      }
    }
    this.#position = start + bytes.length
  }

  /** Throws where the archive was cut off. */
  async end(): Promise<void> {
    if (this.#left > 0 || this.#padding > 0 || this.#block.length > 0)
      throw new Error('the archive of the database is cut off')
    if (this.#isInEntry) await this.#endEntry()
  }

  async #header(): Promise<void> {
    const block = this.#block
    this.#block = Buffer.alloc(0)
    if (block.every((byte) => byte === 0)) {
      this.#isOver = true
      return
    }
    if (this.#isOver) throw new Error('the archive of the database has more than one end')
    const sum = Number.parseInt(text(block, 148, 8).trim(), 8)
    let actual = 8 * 32
    for (let i = 0; i < BLOCK; i++) if (i < 148 || i >= 156) actual += block[i] ?? 0
    if (sum !== actual) throw new Error('the archive of the database is damaged')
    const prefix = text(block, 345, 155)
    const name = (prefix ? `${prefix}/` : '') + text(block, 0, 100)
    const type = TYPES.get(String.fromCharCode(block[156] ?? 0)) ?? 'other'
    const size = type === 'file' ? sizeOf(block.subarray(124, 136)) : 0
    this.#left = size
    this.#padding = (BLOCK - (size % BLOCK)) % BLOCK
    this.#isInEntry = true
    this.#reader.onEntry({ name: name.replace(/^\.\//, '').replace(/\/+$/, ''), type, size })
    if (size === 0) await this.#endEntry()
  }

  async #endEntry(): Promise<void> {
    this.#isInEntry = false
    await this.#reader.onEntryEnd()
  }
}

/** Octal digits, or base 256 for sizes that have no room in them. */
function sizeOf(field: Buffer): number {
  if ((field[0] ?? 0) & 0x80) return Number(field.readBigUInt64BE(4))
  return Number.parseInt(text(field, 0, 12).trim() || '0', 8)
}
