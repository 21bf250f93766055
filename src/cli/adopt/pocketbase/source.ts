import { constants, copyFileSync, existsSync, lstatSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { storableText } from '../../../core/storable.ts'

type Cell = number | bigint | string | null
export type SourceRow = Record<string, Cell>

/** A PocketBase database, read from a copy: SQLite writes beside the file it opens, and `pb_data` is not ours. */
export type Source = {
  /** Of a table; empty when there is none. */
  columns(table: string): readonly string[]
  all(sql: string, values?: Cell[]): SourceRow[]
  each(sql: string): IterableIterator<SourceRow>
  close(): void
}

/** Far above what PocketBase is used for; a larger one is read with more room on the disk than a command should take. */
const MAX_BYTES = 64 * 2 ** 30
const TRIES = 3

export async function openSource(folder: string): Promise<Source> {
  const file = join(folder, 'data.db')
  requireRegular(folder, file)
  const copy = mkdtempSync(join(tmpdir(), 'svc-adopt-'))
  try {
    copyStill(file, join(copy, 'data.db'))
    return await openCopy(copy, file)
  } catch (error) {
    rmSync(copy, { recursive: true, force: true })
    throw error
  }
}

function requireRegular(folder: string, file: string): void {
  const stat = lstatSync(file, { throwIfNoEntry: false })
  if (!stat) throw new Error(`${folder} is no PocketBase data folder: there is no data.db in it`)
  if (stat.isSymbolicLink()) throw new Error(`${file} is a link: name the folder that holds the file itself`)
  if (!stat.isFile()) throw new Error(`${file} is not a file`)
  if (stat.size > MAX_BYTES) throw new Error(`${file} is larger than ${MAX_BYTES / 2 ** 30} GiB`)
  const wal = lstatSync(`${file}-wal`, { throwIfNoEntry: false })
  if (wal && !wal.isFile()) throw new Error(`${file}-wal is not a file`)
}

/** Both files of one moment: rows may be in the WAL alone, and a checkpoint moves them while we copy. */
function copyStill(from: string, to: string): void {
  for (let tries = 0; tries < TRIES; tries++) {
    const before = stateOf(from)
    for (const end of ['', '-wal']) {
      rmSync(to + end, { force: true })
      if (existsSync(from + end)) copyFileSync(from + end, to + end, constants.COPYFILE_FICLONE)
    }
    if (stateOf(from) === before) return
  }
  throw new Error(`${from} changes while it is read: stop PocketBase, then run this again`)
}

const stateOf = (file: string): string =>
  ['', '-wal']
    .map((end) => {
      const stat = statSync(file + end, { throwIfNoEntry: false, bigint: true })
      return stat ? `${stat.ino}:${stat.size}:${stat.mtimeNs}` : 'none'
    })
    .join(' ')

async function openCopy(folder: string, name: string): Promise<Source> {
  const { Database } = (await import('node-sqlite3-wasm')).default
  const file = join(folder, 'data.db')
  const db = new Database(file, { fileMustExist: true })
  const close = (): void => {
    if (db.isOpen) db.close()
    rmSync(folder, { recursive: true, force: true })
  }
  const all = (sql: string, values: Cell[] = []): SourceRow[] => db.all(sql, values).map((row) => withTexts(row))
  try {
    // Without shared memory a WAL is read by its only user.
    db.exec('pragma locking_mode = exclusive')
    db.exec('pragma trusted_schema = off')
    const [check] = all('pragma quick_check(1)')
    const said = String(Object.values(check ?? {})[0])
    if (said !== 'ok') throw new Error(said)
  } catch (error) {
    close()
    throw new Error(`${name} cannot be read: ${(error as Error).message}`, { cause: error })
  }
  return {
    columns: (table) => all('select name from pragma_table_info(?)', [table]).map((row) => String(row['name'])),
    all,
    each: function* (sql) {
      const statement = db.prepare(sql)
      try {
        for (const row of statement.iterate()) yield withTexts(row)
      } finally {
        statement.finalize()
      }
    },
    close,
  }
}

export const sqliteName = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** The driver cuts a text at its first zero character, but bytes it does not. */
export function wholeText(name: string): string {
  const column = sqliteName(name)
  return `case when instr(${column}, char(0)) > 0 then cast(${column} as blob) else ${column} end as ${column}`
}

export const idIn = (row: SourceRow): string => storableText(String(row['id']))

function withTexts(row: Record<string, unknown>): SourceRow {
  for (const [name, cell] of Object.entries(row))
    if (cell instanceof Uint8Array) row[name] = Buffer.from(cell).toString()
  return row as SourceRow
}
