import { AppError, badRequest } from '../../../core/errors.ts'
import type { Column, Table } from '../../../db/schema/snapshot.ts'
import { isGeoJson } from '../../../db/schema/spatial/geojson.ts'
import { isSpatial } from '../../../db/schema/spatial-conversion.ts'
import { columnFinder, isFields } from '../write/body.ts'
import { CsvError, CsvReader, type CsvRow } from './csv.ts'
import { isJsonCell } from './export.ts'
import { ElementReader, ElementTooLong } from './json-elements.ts'

/** Characters of one row, which the server buffers before it can check the row. */
const MAX_ROW = 8 * 2 ** 20
/** A character of UTF-16 takes at most three bytes of UTF-8. */
const MAX_LINE_BYTES = 3 * MAX_ROW + 2

/** A row of an import: its columns with a text for each, or a JSON object. */
export type CellsRow = RowHead & { readonly cells: readonly (string | null)[]; readonly length: number }
export type BodyRow = RowHead & { readonly body: string }
type RowHead = { readonly line: number; readonly columns: readonly Column[] }

/** A row, or its error. */
export type ParsedRow = CellsRow | BodyRow | { readonly line: number; readonly fault: string }

/** The JSON object of a row; values of json columns are texts that hold JSON. */
export const bodyOf = (row: CellsRow | BodyRow): string =>
  'body' in row
    ? row.body
    : `{${row.columns.map(({ name }, i) => `${JSON.stringify(name)}:${JSON.stringify(row.cells[i])}`).join()}}`

/** Reads rows from pieces of text. An error that makes the rest unreadable is thrown as UnreadableError. */
export interface RowReader {
  /** Values of json columns are texts that hold JSON. */
  readonly hasJsonAsText: boolean
  /** A longer line is in no readable body. */
  readonly maxLineBytes: number
  read(piece: string): ParsedRow[]
  end(): ParsedRow[]
}

export class UnreadableError extends Error {
  readonly line: number
  constructor(line: number, message: string) {
    super(message)
    this.line = line
  }
}

export const IMPORTED_TYPES = ['text/csv', 'application/json', 'application/x-ndjson']

export function readerOf(contentType: string, table: Table): RowReader {
  switch (contentType.split(';')[0]?.trim().toLowerCase()) {
    case 'text/csv':
      return new CsvRows(table)
    case 'application/json':
      return new JsonRows(table)
    case 'application/x-ndjson':
      return new JsonLines(table)
    default:
      throw new AppError(
        'unsupported_media_type',
        'content type must be text/csv, application/json or application/x-ndjson',
      )
  }
}

/** A column of the header; `key` is the JSON text before its value. */
type HeaderCell = { readonly column: Column; readonly key: string; readonly isJson: boolean }

const headerCell = (column: Column): HeaderCell => ({
  column,
  key: `${JSON.stringify(column.name)}:`,
  isJson: isJsonCell(column),
})

/** What PostgreSQL computes; an identity column takes the value that a file has. */
const isComputed = ({ isGenerated, isIdentity }: Column): boolean => isGenerated && !isIdentity
const isMade = ({ isGenerated, isIdentity }: Column): boolean => isGenerated && isIdentity

const NO_COLUMNS = 'no recognized columns'

class CsvRows implements RowReader {
  readonly maxLineBytes = MAX_LINE_BYTES
  readonly hasJsonAsText = true
  readonly #table: Table
  readonly #csv = new CsvReader(MAX_ROW)
  /** By position. Undefined: the cell is skipped. */
  #header: (HeaderCell | undefined)[] | undefined
  #columns: Column[] = []
  /** Every cell can be sent to PostgreSQL as it is. */
  #isPlain = false
  #skips = false
  #hasMade = false

  constructor(table: Table) {
    this.#table = table
  }

  read(piece: string): ParsedRow[] {
    return this.#rows(() => this.#csv.read(piece))
  }
  end(): ParsedRow[] {
    return this.#rows(() => this.#csv.end())
  }

  #rows(read: () => CsvRow[]): ParsedRow[] {
    try {
      const rows = read()
      if (!this.#header && rows[0]) this.#header = this.#headerOf((rows.shift() as CsvRow).cells)
      const incoming: ParsedRow[] = []
      for (const row of rows) {
        // In a file of one column an empty line is a row of NULL.
        const isEmpty = row.cells.length === 1 && row.cells[0] === null && (this.#header ?? []).length > 1
        if (!isEmpty) incoming.push(this.#incoming(row))
      }
      return incoming
    } catch (error) {
      throw error instanceof CsvError ? new UnreadableError(error.line, error.message) : error
    }
  }

  #headerOf(names: readonly (string | null)[]): (HeaderCell | undefined)[] {
    const header = names.map((name) => {
      const { columns } = this.#table
      const column = columns.get(name ?? '') ?? columns.get((name ?? '').trim())
      if (column) return column
      if (names.length === 1 && name?.includes(';')) {
        throw badRequest('columns must be separated by commas, not semicolons')
      }
      throw badRequest(`unknown column "${(name ?? '').slice(0, 100)}"`, 'unknown_column')
    })
    const twice = header.find((column, i) => header.indexOf(column) !== i)
    if (twice) throw badRequest(`column "${twice.name}" stands twice`)
    const written = header.map((column) => (isComputed(column) ? undefined : column))
    this.#columns = written.flatMap((column) => column ?? [])
    if (this.#columns.length === 0) throw badRequest('no recognized columns in request body', 'unknown_column')
    this.#skips = this.#columns.length < written.length
    this.#hasMade = this.#columns.some(isMade)
    this.#isPlain = this.#columns.every((column) => isJson(column) || !isJsonCell(column))
    return written.map((column) => column && headerCell(column))
  }

  #incoming({ line, cells, length }: CsvRow): ParsedRow {
    const header = this.#header ?? []
    if (cells.length !== header.length) {
      return { line, fault: `expected ${header.length} cells, found ${cells.length}` }
    }
    if (this.#hasMade) {
      // Without a value it is made, as for a row that does not name the column.
      const given = header.map(
        (heading, i) => heading && (isMade(heading.column) && cells[i] === null ? undefined : heading),
      )
      const columns = given.flatMap((heading) => heading?.column ?? [])
      if (columns.length === 0) return { line, fault: NO_COLUMNS }
      if (columns.length < this.#columns.length) return this.#row({ line, cells, length }, given, columns)
    }
    return this.#row({ line, cells, length }, header, this.#columns)
  }

  #row(
    { line, cells, length }: CsvRow,
    header: readonly (HeaderCell | undefined)[],
    columns: readonly Column[],
  ): ParsedRow {
    if (this.#isPlain) {
      const written = this.#skips || columns !== this.#columns ? cells.filter((_, i) => header[i]) : cells
      return { line, columns, cells: written, length }
    }
    let body = '{'
    for (let i = 0; i < header.length; i++) {
      const heading = header[i]
      if (!heading) continue
      const { column, key, isJson } = heading
      const cell = cells[i] ?? null
      const value = cell === null ? 'null' : isJson ? jsonCell(column, cell) : JSON.stringify(cell)
      if (value === undefined) return { line, fault: `invalid ${column.type} value: expected JSON` }
      body += (body.length > 1 ? ',' : '') + key + value
    }
    return { line, columns, body: `${body}}` }
  }
}

export const isJson = ({ baseType }: Column): boolean => baseType === 'json' || baseType === 'jsonb'

/** The JSON of a cell. For json columns it is sent as text, so that PostgreSQL reads it unchanged. */
function jsonCell(column: Column, cell: string): string | undefined {
  if (isJson(column)) return JSON.stringify(cell)
  try {
    const value: unknown = JSON.parse(cell)
    return isSpatial(column) && !isGeoJson(value) ? undefined : cell
  } catch {
    return isSpatial(column) ? undefined : JSON.stringify(cell)
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Both forms of JSON have one text per row. */
abstract class JsonReader implements RowReader {
  abstract readonly maxLineBytes: number
  readonly hasJsonAsText = false
  readonly #columnsOf: ReturnType<typeof columnFinder>

  constructor(table: Table) {
    this.#columnsOf = columnFinder(table)
  }

  abstract read(piece: string): ParsedRow[]
  abstract end(): ParsedRow[]

  protected incoming(line: number, text: string): ParsedRow {
    const row = parsed(text)
    if (row === undefined) return { line, fault: 'invalid JSON' }
    if (!isFields(row)) return { line, fault: 'expected a JSON object' }
    try {
      const columns = this.#columnsOf(row).filter((one) => !isComputed(one) && !(isMade(one) && row[one.name] === null))
      return columns.length > 0 ? { line, columns, body: text } : { line, fault: NO_COLUMNS }
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      return { line, fault: error.message }
    }
  }
}

class JsonRows extends JsonReader {
  readonly maxLineBytes = Number.POSITIVE_INFINITY
  readonly #elements = new ElementReader(MAX_ROW)

  read(piece: string): ParsedRow[] {
    try {
      return this.#elements.read(piece).map(({ number, text }) => this.incoming(number, text))
    } catch (error) {
      throw error instanceof ElementTooLong ? new UnreadableError(error.number, 'row is too long') : error
    }
  }
  end(): ParsedRow[] {
    this.#elements.end()
    return []
  }
}

class JsonLines extends JsonReader {
  readonly maxLineBytes = MAX_LINE_BYTES
  #rest = ''
  #line = 0

  read(piece: string): ParsedRow[] {
    const lines = piece.split('\n')
    lines[0] = this.#rest + (lines[0] ?? '')
    this.#rest = lines.pop() ?? ''
    const longest = lines.find((line) => line.length > MAX_ROW)
    if (longest !== undefined || this.#rest.length > MAX_ROW) {
      const before = longest === undefined ? lines.length : lines.indexOf(longest)
      throw new UnreadableError(this.#line + before + 1, 'row is too long')
    }
    return lines.flatMap((line) => this.#one(line))
  }
  end(): ParsedRow[] {
    return this.#one(this.#rest)
  }

  #one(text: string): ParsedRow[] {
    this.#line++
    const row = text.replace(/^\ufeff/, '').trim()
    return row === '' ? [] : [this.incoming(this.#line, row)]
  }
}
