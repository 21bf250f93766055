/** A line of cells as in RFC 4180. NULL is an empty cell, an empty text is `""`. */
export function csvLine(cells: readonly (string | null)[]): string {
  let line = ''
  for (let i = 0; i < cells.length; i++) {
    if (i > 0) line += ','
    const cell = cells[i]
    if (cell !== null && cell !== undefined) line += needsQuotes(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
  }
  return `${line}\r\n`
}

export const needsQuotes = (cell: string): boolean => /^$|[",\r\n]|^\s|\s$|^\ufeff/.test(cell)

export type CsvRow = {
  /** The physical line on which it begins, counted from 1. */
  readonly line: number
  /** Null for a cell without any character, not even quotes. */
  readonly cells: readonly (string | null)[]
  /** Approximate number of characters. */
  readonly length: number
}

/** A record is too long, or has a misplaced quote. */
export class CsvError extends Error {
  readonly line: number
  constructor(line: number, message: string) {
    super(message)
    this.line = line
  }
}

/** Above PostgreSQL's limit of 1600 columns per table. */
const MAX_CELLS = 2000
const MANY_PIECES = 1000

const QUOTE = 0x22
const COMMA = 0x2c
const CR = 0x0d
const LF = 0x0a

/** Incremental reader of RFC 4180. Also accepts bare LF and a byte order mark. */
export class CsvReader {
  readonly #maxRecord: number
  #cells: (string | null)[] = []
  #cell = ''
  /** Later parts of the same cell; appending one character at a time would take forty times the memory. */
  #pieces: string[] = []
  #length = 0
  #line = 1
  #began = 1
  #isQuoted = false
  #inQuotes = false
  /** The last character was a quote inside quotes: either the end of the cell or the first half of an escaped quote. */
  #quotePending = false
  #lastWasCr = false
  #isStart = true

  constructor(maxRecord: number) {
    this.#maxRecord = maxRecord
  }

  read(piece: string): CsvRow[] {
    const rows: CsvRow[] = []
    let text = piece
    if (this.#isStart && text !== '') {
      this.#isStart = false
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1)
    }
    let from = 0
    const take = (to: number): void => {
      if (to > from) this.#grow(text.slice(from, to))
      from = to + 1
    }
    for (let i = 0; i < text.length; i++) {
      let code = text.charCodeAt(i)
      if (code > COMMA && !this.#quotePending) {
        // Fast path: all characters with a meaning in CSV have codes up to that of the comma.
        do code = text.charCodeAt(++i)
        while (code > COMMA)
        this.#lastWasCr = false
        if (i >= text.length) break
      }
      if (code === LF) this.#line += this.#lastWasCr ? 0 : 1
      else if (code === CR) this.#line++
      const afterCr = this.#lastWasCr
      this.#lastWasCr = code === CR
      if (this.#quotePending) {
        this.#quotePending = false
        if (code === QUOTE) {
          this.#grow('"')
          from = i + 1
          continue
        }
        this.#inQuotes = false
        if (code !== COMMA && code !== LF && code !== CR)
          throw new CsvError(this.#began, 'unexpected text after a quote')
        from = i
      }
      if (this.#inQuotes) {
        if (code !== QUOTE) continue
        take(i)
        this.#quotePending = true
      } else if (code === QUOTE && this.#cell === '' && from === i && !this.#isQuoted) {
        this.#isQuoted = true
        this.#inQuotes = true
        from = i + 1
      } else if (code === COMMA) {
        take(i)
        this.#endCell()
      } else if (code === CR || code === LF) {
        if (code === LF && afterCr && this.#isEmpty && from === i) from = i + 1
        else {
          take(i)
          this.#endRecord(rows)
        }
        this.#began = this.#line
      }
    }
    if (!this.#quotePending && from < text.length) this.#grow(text.slice(from))
    return rows
  }

  /** The last record, if no line break ended it. */
  end(): CsvRow[] {
    const rows: CsvRow[] = []
    if (this.#inQuotes && !this.#quotePending) throw new CsvError(this.#began, 'a quote is not closed')
    if (!this.#isEmpty) this.#endRecord(rows)
    return rows
  }

  get #isEmpty(): boolean {
    return this.#cells.length === 0 && this.#cell === '' && !this.#isQuoted
  }

  #grow(text: string): void {
    this.#length += text.length
    if (this.#length > this.#maxRecord) throw new CsvError(this.#began, 'row is too long')
    if (this.#cell === '') this.#cell = text
    else if (this.#pieces.push(text) >= MANY_PIECES) this.#gather()
  }

  #gather(): void {
    this.#cell += this.#pieces.join('')
    this.#pieces = []
  }

  #endCell(): void {
    if (this.#pieces.length > 0) this.#gather()
    this.#cells.push(this.#cell === '' && !this.#isQuoted ? null : this.#cell)
    this.#length++
    if (this.#length > this.#maxRecord || this.#cells.length > MAX_CELLS)
      throw new CsvError(this.#began, 'row is too long')
    this.#cell = ''
    this.#isQuoted = false
    this.#inQuotes = false
    this.#quotePending = false
  }

  #endRecord(rows: CsvRow[]): void {
    this.#endCell()
    rows.push({ line: this.#began, cells: this.#cells, length: this.#length })
    this.#cells = []
    this.#length = 0
  }
}
