import type { RawRow } from '../../../db/db.ts'
import { csvLine, needsQuotes } from './csv.ts'

export type FileFormat = 'csv' | 'json' | 'ndjson'

/** How a cell of CSV is written: `plain` never needs quotes; `moment` is rewritten from PostgreSQL's ISO text to the form of JSON. */
export type Cell = { readonly name: string; readonly kind: 'plain' | 'moment' | 'text' }

const QUOTE = 0x22
const COMMA = 0x2c
const CR = 0x0d
const LF = 0x0a
const SPACE = 0x20
const PLUS = 0x2b
const MINUS = 0x2d
const LETTER_C = 0x43
const LETTER_T = 0x54
const ASCII_END = 0x7f
const FIRST_SIZE = 64 * 1024

/** Turns rows as PostgreSQL sent them into the bytes of a file without making strings, because exports are large. */
export abstract class RowWriter {
  protected bytes: Buffer = Buffer.allocUnsafeSlow(FIRST_SIZE)
  protected end = 0
  #spare: Buffer | undefined
  #taken = 0

  abstract row(row: RawRow): void
  /** Writes what follows the last row. */
  finish(): void {}

  /** Bytes since the last `take`. */
  get size(): number {
    return this.end
  }

  /** Bytes of all rows so far. */
  get total(): number {
    return this.#taken + this.end
  }

  /** The bytes written since the last `take`. Their memory is reused after the next `take`. */
  take(): Buffer {
    const taken = this.bytes.subarray(0, this.end)
    const whole = this.bytes
    this.bytes = this.#spare ?? Buffer.allocUnsafeSlow(FIRST_SIZE)
    this.#spare = whole
    this.#taken += this.end
    this.end = 0
    return taken
  }

  protected text(text: string): void {
    this.room(text.length * 3)
    this.end += this.bytes.write(text, this.end)
  }

  protected room(size: number): void {
    const needed = this.end + size
    if (needed <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(2 ** Math.ceil(Math.log2(needed)))
    this.bytes.copy(larger, 0, 0, this.end)
    this.bytes = larger
  }
}

/** Up to this many bytes a loop is faster than Buffer.copy. */
const LOOP_PAYS = 32

/** Returns the end of the copy in `out`. */
function copy(from: Buffer, start: number, end: number, out: Buffer, at: number): number {
  if (end - start > LOOP_PAYS) {
    from.copy(out, at, start, end)
    return at + end - start
  }
  let to = at
  for (let i = start; i < end; i++) out[to++] = from[i] as number
  return to
}

export function writerOf(format: FileFormat, cells: readonly Cell[]): RowWriter {
  switch (format) {
    case 'csv':
      return new CsvWriter(cells)
    case 'json':
      return new JsonWriter()
    case 'ndjson':
      return new JsonLinesWriter()
  }
}

/** See csvLine. */
class CsvWriter extends RowWriter {
  readonly #kinds: readonly Cell['kind'][]

  constructor(cells: readonly Cell[]) {
    super()
    this.#kinds = cells.map(({ kind }) => kind)
    this.text(csvLine(cells.map(({ name }) => name)))
  }

  row({ bytes, count, starts, ends }: RawRow): void {
    const last = Math.max(ends[count - 1] as number, starts[count - 1] as number)
    this.room(2 * (last - (starts[0] as number)) + 3 * count + 2)
    const out = this.bytes
    let to = this.end
    for (let i = 0; i < count; i++) {
      if (i > 0) out[to++] = COMMA
      const at = starts[i] as number
      const end = ends[i] as number
      if (end < at) continue
      const kind = this.#kinds[i]
      if (kind === 'text' && !isPlain(bytes, at, end)) {
        to = writeQuoted(bytes, at, end, out, to)
        continue
      }
      if (kind === 'moment') {
        to = writeMoment(bytes, at, end, out, to)
        continue
      }
      to = copy(bytes, at, end, out, to)
    }
    out[to++] = CR
    out[to++] = LF
    this.end = to
  }
}

/** `2026-01-02 03:04:05+00 BC` becomes `2026-01-02T03:04:05+00:00 BC`. */
function writeMoment(from: Buffer, start: number, end: number, out: Buffer, at: number): number {
  const stop = from[end - 1] === LETTER_C ? end - ' BC'.length : end
  let to = at
  for (let i = start; i < stop; i++) {
    const byte = from[i] as number
    out[to++] = byte === SPACE ? LETTER_T : byte
  }
  const sign = from[stop - '+00'.length]
  if (sign === PLUS || sign === MINUS) to += out.write(':00', to, 'latin1')
  return copy(from, stop, end, out, to)
}

function writeQuoted(from: Buffer, start: number, end: number, out: Buffer, at: number): number {
  let to = at
  out[to++] = QUOTE
  for (let i = start; i < end; i++) {
    const byte = from[i] as number
    out[to++] = byte
    if (byte === QUOTE) out[to++] = QUOTE
  }
  out[to++] = QUOTE
  return to
}

function isPlain(bytes: Buffer, start: number, end: number): boolean {
  if (start === end) return false
  const first = bytes[start] as number
  const last = bytes[end - 1] as number
  if (first <= SPACE || last <= SPACE) return false
  // Only these can be Unicode white space, which has to be tested by character.
  if (first > ASCII_END || last > ASCII_END) return !needsQuotes(bytes.toString('utf8', start, end))
  for (let i = start; i < end; i++) {
    const byte = bytes[i] as number
    if (byte === QUOTE || byte === COMMA || byte === LF || byte === CR) return false
  }
  return true
}

class JsonWriter extends RowWriter {
  #isFirst = true

  constructor() {
    super()
    this.text('[')
  }

  row({ bytes, starts, ends }: RawRow): void {
    const [start, end] = [starts[0] as number, ends[0] as number]
    this.room(end - start + 2)
    if (!this.#isFirst) this.bytes[this.end++] = COMMA
    this.#isFirst = false
    this.bytes[this.end++] = LF
    this.end = copy(bytes, start, end, this.bytes, this.end)
  }

  override finish(): void {
    this.text('\n]\n')
  }
}

class JsonLinesWriter extends RowWriter {
  row({ bytes, starts, ends }: RawRow): void {
    const [start, end] = [starts[0] as number, ends[0] as number]
    this.room(end - start + 1)
    const written = this.end
    this.end = copy(bytes, start, end, this.bytes, this.end)
    // A json column keeps its line breaks. They are only between values, so spaces can replace them.
    for (let i = written; i < this.end; i++) {
      const byte = this.bytes[i]
      if (byte === LF || byte === CR) this.bytes[i] = SPACE
    }
    this.bytes[this.end++] = LF
  }
}
