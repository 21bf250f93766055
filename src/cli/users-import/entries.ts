import { constants, lstatSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { CsvError, CsvReader } from '../../features/collections/bulk/csv.ts'
import { JsonRecords, MAX_RECORD, UnreadableFile } from './json-records.ts'

/** A user as the file has it. */
export type Entry = { number: number; fields: Readonly<Record<string, unknown>> }
/** `header`: names of the columns of a CSV without a first line of names. */
type Options = { header: readonly string[] | undefined; heard: (bytes: number) => void }

const PIECE = 256 * 1024

/** The bytes of a regular file that is no link. */
async function openRegular(file: string): Promise<FileHandle> {
  const stat = lstatSync(file, { throwIfNoEntry: false })
  if (!stat) throw new Error(`there is no file ${file}`)
  if (stat.isSymbolicLink()) throw new Error(`${file} is a link: name the file itself`)
  if (!stat.isFile()) throw new Error(`${file} is not a file`)
  const handle = await open(file, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0))
  if ((await handle.stat()).isFile()) return handle
  await handle.close()
  throw new Error(`${file} is not a file`)
}

/** Reads JSON or CSV, by its first character; a broken file is a sentence with the number of the user. */
export async function* entriesOf(file: string, options: Options): AsyncGenerator<Entry> {
  const handle = await openRegular(file)
  let number = 0
  try {
    let reader: Reader['read'] | undefined
    let end: Reader['end'] = () => []
    for await (const piece of piecesOf(handle, options.heard)) {
      if (!reader && /^[\s\ufeff]*$/.test(piece)) continue
      if (!reader) ({ read: reader, end } = readerFor(piece, options.header))
      for (const fields of reader(piece)) yield { number: ++number, fields }
    }
    for (const fields of end()) yield { number: ++number, fields }
  } catch (error) {
    if (error instanceof UnreadableFile || error instanceof CsvError || error instanceof SyntaxError)
      throw new Error(
        `${file} cannot be read after ${number} users: ${error.message}${error instanceof CsvError ? ` (line ${error.line})` : ''}`,
        { cause: error },
      )
    throw error
  } finally {
    await handle.close()
  }
}

async function* piecesOf(handle: FileHandle, heard: (bytes: number) => void): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const decode = (bytes: Uint8Array, isLast: boolean): string => {
    try {
      return decoder.decode(bytes, { stream: !isLast })
    } catch {
      throw new UnreadableFile('it is not UTF-8')
    }
  }
  const buffer = Buffer.alloc(PIECE)
  for (;;) {
    const { bytesRead } = await handle.read(buffer, 0, PIECE)
    if (bytesRead === 0) break
    heard(bytesRead)
    yield decode(buffer.subarray(0, bytesRead), false)
  }
  yield decode(new Uint8Array(), true)
}

type Reader = {
  read: (piece: string) => Iterable<Record<string, unknown>>
  end: () => Iterable<Record<string, unknown>>
}

const readerFor = (piece: string, header: Options['header']): Reader =>
  /^[\s\ufeff]*[[{]/.test(piece) ? jsonReader() : csvReader(header)

function jsonReader(): Reader {
  const records = new JsonRecords()
  const parsed = (text: string): Record<string, unknown> => {
    try {
      return JSON.parse(text) as Record<string, unknown>
    } catch {
      throw new UnreadableFile('the next one is not JSON')
    }
  }
  return {
    *read(piece) {
      if (!records.isDone) for (const text of records.read(piece)) yield parsed(text)
    },
    end: () => {
      records.end()
      return []
    },
  }
}

/** An empty cell is null. */
function csvReader(given: readonly string[] | undefined): Reader {
  const csv = new CsvReader(MAX_RECORD)
  let header = given
  const named = (rows: ReturnType<CsvReader['read']>): Record<string, unknown>[] =>
    rows.flatMap(({ cells }) => {
      if (!header || (header === given && cells[0] === given[0])) {
        header = cells.map((cell) => (cell ?? '').trim())
        return []
      }
      if (cells.length === 1 && cells[0] === null) return []
      const fields: Record<string, unknown> = Object.create(null)
      for (const [index, name] of header.entries()) {
        if (name !== '') fields[name] = cells[index] || null
      }
      return [fields]
    })
  return { read: (piece) => named(csv.read(piece)), end: () => named(csv.end()) }
}
