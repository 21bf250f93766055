import { AppError, badRequest } from '../../../core/errors.ts'
import type { Appender } from '../../../db/changes/append.ts'
import type { Db, Tx } from '../../../db/db.ts'
import type { DryRun } from '../../../db/history/dry-run.ts'
import { isAborted, isBadRow } from '../../../db/pg-errors.ts'
import { IS_NEW, logUpserts, MADE } from '../../../db/rows/change-logging.ts'
import { canPack, insertPacked } from '../../../db/rows/pack.ts'
import { SqlCache } from '../../../db/rows/sql-cache.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import type { Conflict } from '../../../db/rows/upsert.ts'
import { insertRows } from '../../../db/rows/write.ts'
import type { Column, Table } from '../../../db/schema/snapshot.ts'
import { type Sql, sql } from '../../../db/sql.ts'
import { keepReply } from '../../../http/once.ts'
import { type Call, json, type Reply } from '../../../http/route.ts'
import { rightsOn } from '../target/rights.ts'
import { conflictOf } from '../write/conflict.ts'
import { explainWrite } from '../write/errors.ts'
import { bodiesInput, cellsInput, inputOf } from './input.ts'
import {
  type BodyRow,
  bodyOf,
  type CellsRow,
  type ParsedRow,
  type RowReader,
  readerOf,
  UnreadableError,
} from './records.ts'

export type ImportDeps = {
  readonly db: Db
  readonly text: AsyncIterable<string>
  readonly signal: AbortSignal
  readonly dryRun: DryRun | undefined
}

type ValidRow = CellsRow | BodyRow
type Counts = { created: number; updated: number; skipped: number }
type RowFault = { line: number; message: string }

const CHUNK_ROWS = 500
const CHUNK_CHARACTERS = 256 * 1024
const MAX_FAULTS = 20
/** Characters of the statements an import keeps: rows with other columns need another statement. */
const KEPT_STATEMENTS = 512 * 1024
/** Up to this many rows an import logs one entry per row; after that, one entry per chunk. */
const LOGGED_SINGLY = 2000

/** Imports all rows of a body that has arrived, or none, in one transaction. */
export async function importRows(
  { db, text, signal, dryRun }: ImportDeps,
  call: Call,
  target: TableView,
  log: Appender,
): Promise<Reply> {
  const { who, query, once } = call
  const isDry = query['dry_run'] === 'true'
  const reader = readerOf(call.headers['content-type'] ?? '', target.table)
  const work = async (tx: Tx): Promise<Counts> => {
    const run = new ImportRun({ tx, target, query, log, reader })
    const since = await dryRun?.begin(tx)
    await run.read(text)
    const counts = await run.finish()
    if (dryRun && since !== undefined) await dryRun.finish(tx, since)
    if (isDry || dryRun) throw new NotKept(counts)
    return counts
  }
  const options = { apart: true, signal, once: once && keepReply(once, rightsOf(target), imported) } as const
  return db.tx(who, work, options).then(imported, (error: unknown) => {
    if (!(error instanceof NotKept)) throw error
    return json(200, { ...error.counts, dry_run: isDry })
  })
}

/** Throws where the parameters do not fit the table, as if every row had all columns. */
export const requireImportable = (query: Call['query'], { table }: TableView): void =>
  void conflictIn(query, table, [...table.columns.values()])

const conflictIn = ({ onConflict, merge }: Call['query'], table: Table, columns: readonly Column[]) =>
  onConflict === undefined ? undefined : conflictOf(table, onConflict, merge, columns)

const imported = (counts: Counts): Reply => json(200, { ...counts, dry_run: false })

/** Thrown to roll back a successful dry run. */
class NotKept extends AppError {
  readonly counts: Counts
  constructor(counts: Counts) {
    super('internal', 'dry run')
    this.counts = counts
  }
}

/** The answer shows no values, and which columns the rows name is not known yet. */
const rightsOf = (target: TableView): string[] =>
  rightsOn(target, ['insert', 'update'], []).filter((right) => !right.startsWith('select'))

class ImportRun {
  readonly #tx: Tx
  readonly #target: TableView
  readonly #query: Call['query']
  readonly #log: Appender
  readonly #reader: RowReader
  readonly #counts: Counts = { created: 0, updated: 0, skipped: 0 }
  readonly #faults: RowFault[] = []
  readonly #statements = new SqlCache(KEPT_STATEMENTS)
  readonly #canPack: boolean
  #chunk: ValidRow[] = []
  /** The last chunk that was sent, and the one before it. */
  #latest = Promise.resolve()
  #previous = Promise.resolve()
  /** Chunks are then sent one at a time, so that none is in flight while rows of a failed one are retried. */
  #hasFailed = false
  #characters = 0
  #rows = 0

  constructor(deps: { tx: Tx; target: TableView; query: Call['query']; log: Appender; reader: RowReader }) {
    const { tx, target, query, log, reader } = deps
    this.#tx = tx
    this.#target = target
    this.#query = query
    this.#log = log
    this.#reader = reader
    this.#canPack = canPack(target)
  }

  async read(pieces: AsyncIterable<string>): Promise<void> {
    const reader = this.#reader
    try {
      for await (const piece of pieces) await this.#addAll(reader.read(piece))
      await this.#addAll(reader.end())
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error
      await this.#flush()
      await this.#latest
      this.#blame(error.line, error.message)
      throw this.#failure()
    }
  }

  async finish(): Promise<Counts> {
    await this.#flush()
    await this.#latest
    if (this.#faults.length > 0) throw this.#failure()
    if (this.#rows === 0) throw badRequest('no rows to import')
    await this.#tx.run(sql`set constraints all immediate`)
    return this.#counts
  }

  async #addAll(rows: readonly ParsedRow[]): Promise<void> {
    for (const row of rows) {
      this.#rows++
      if ('fault' in row) {
        this.#blame(row.line, row.fault)
        continue
      }
      const [first] = this.#chunk
      if (first && !isSame(first.columns, row.columns)) await this.#flush()
      this.#chunk.push(row)
      this.#characters += 'body' in row ? row.body.length : row.length
      if (this.#chunk.length >= CHUNK_ROWS || this.#characters >= CHUNK_CHARACTERS) await this.#flush()
    }
  }

  /** Two chunks are in flight while a third is read. */
  async #flush(): Promise<void> {
    const chunk = this.#chunk
    this.#chunk = []
    this.#characters = 0
    if (chunk.length === 0) return
    const before = this.#latest
    await this.#previous
    if (this.#hasFailed) await before
    this.#previous = before
    const sent = this.#insert(chunk)
    this.#latest = before.then(() => this.#confirm(chunk, sent))
    // The next await of #latest reports the error.
    sent.catch(() => {})
    this.#latest.catch(() => {})
  }

  /** A failed chunk is retried row by row to find the faulty lines. */
  async #confirm(chunk: readonly ValidRow[], sent: Promise<void>): Promise<void> {
    // It was in flight when the previous chunk failed.
    const again = await sent.then(NO, isAborted)
    if ((await this.#tryInsert(chunk, again ? this.#insert(chunk) : sent)) === undefined) return
    for (const row of chunk) {
      const single = { ...row, body: bodyOf(row) }
      const error = await this.#tryInsert([single], this.#insert([single]))
      if (error) this.#blame(row.line, error.message)
    }
  }

  /** Undefined if the rows were inserted. Errors that are not caused by a row's data are thrown. */
  async #tryInsert(rows: readonly ValidRow[], sent: Promise<void>): Promise<AppError | undefined> {
    try {
      await sent
      return undefined
    } catch (error) {
      const columns = rows[0]?.columns ?? []
      // A row refused by a policy is not a data error but a 403.
      if (!(error instanceof AppError) || !isBadRow(error)) throw error
      this.#hasFailed = true
      await this.#tx.run(UNDO)
      return explainWrite(error, columns)
    }
  }

  async #insert(rows: readonly ValidRow[]): Promise<void> {
    const { statement, values } = this.#statement(rows)
    const [, counted] = await this.#tx.fly([SAVEPOINT, statement.fill(values), RELEASE])
    const [created = 0, made = created] = (counted ?? '').split(' ').map(Number)
    this.#counts.created += created
    this.#counts.updated += made - created
    this.#counts.skipped += rows.length - made
  }

  #statement(rows: readonly ValidRow[]) {
    const target = this.#target
    const columns = rows[0]?.columns ?? []
    const conflict = this.#conflict(columns)
    const isPacked = this.#canPack && !conflict && rows.length > 1 && this.#rows > LOGGED_SINGLY
    const { form, values } = inputOf(rows)
    const key = `${form} ${isPacked} ${columns.map(({ position }) => position).join()}`
    const statement = this.#statements.get(target, key, () => {
      const input = form === 'cells' ? cellsInput(columns) : bodiesInput(columns, this.#reader.hasJsonAsText)
      return buildImport({ target, columns, input, conflict, log: this.#log, isPacked })
    })
    return { statement, values }
  }

  #conflict(columns: readonly Column[]): Conflict | undefined {
    return conflictIn(this.#query, this.#target.table, columns)
  }

  #blame(line: number, message: string): void {
    this.#faults.push({ line, message })
    if (this.#faults.length >= MAX_FAULTS) throw this.#failure()
  }

  #failure(): AppError {
    const rows = this.#faults.sort((a, b) => a.line - b.line).slice(0, MAX_FAULTS)
    return new AppError('import_failed', 'import failed', { data: { rows } })
  }
}

const SAVEPOINT = sql`savepoint svc_chunk`
const RELEASE = sql`release savepoint svc_chunk`
const UNDO = sql`rollback to savepoint svc_chunk`

const NO = (): boolean => false

const isSame = (some: readonly Column[], others: readonly Column[]): boolean =>
  some === others || (some.length === others.length && some.every((column, i) => column === others[i]))

type ImportStatement = {
  readonly target: TableView
  readonly columns: readonly Column[]
  readonly input: Sql
  readonly conflict: Conflict | undefined
  readonly log: Appender
  readonly isPacked: boolean
}

/** Returns the number of new rows and, unless all are new, the number of written rows. */
function buildImport({ target, columns, input, conflict, log, isPacked }: ImportStatement): Sql {
  const insertion = { columns, input, conflict, keepsIdentity: true }
  if (isPacked) return insertPacked(target, insertion, log)
  return sql`with ${MADE} as (${insertRows(target, insertion, log)})
    select pg_catalog.concat(pg_catalog.count(*) filter (where ${IS_NEW}), ' ', pg_catalog.count(*)), ${logUpserts(target, log)}
    from ${MADE}`
}
