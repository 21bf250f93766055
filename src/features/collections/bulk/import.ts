import { AppError, badRequest } from '../../../core/errors.ts'
import type { Appender } from '../../../db/changes/append.ts'
import type { Db, Tx } from '../../../db/db.ts'
import { isBadRow } from '../../../db/pg-errors.ts'
import type { Place } from '../../../db/rows/place.ts'
import { type Conflict, IS_NEW, logUpserts, onConflict, replaced } from '../../../db/rows/upsert.ts'
import { definitions, INPUT, insert, loggedOutcome, MADE } from '../../../db/rows/write.ts'
import type { Column } from '../../../db/schema/snapshot.ts'
import { COMMA, EMPTY, Ident, join, type Sql, slotAt, sql } from '../../../db/sql.ts'
import type { Call } from '../../../http/route.ts'
import { conflictOf } from '../write/conflict.ts'
import { explainWrite } from '../write/errors.ts'
import { textOf } from './arriving.ts'
import { type Incoming, type RowReader, readerOf, Unreadable } from './records.ts'

export type ImportDeps = { readonly db: Db; readonly maxBytes: number }

type Good = Extract<Incoming, { body: string }>
type Counts = { created: number; updated: number; skipped: number }
type Fault = { line: number; message: string }

const CHUNK_ROWS = 500
const CHUNK_CHARACTERS = 256 * 1024
const MAX_FAULTS = 20

/** All rows of the body or none, in one transaction that lasts as long as they arrive. */
export async function importRows(
  { db, maxBytes }: ImportDeps,
  call: Call,
  place: Place,
  log: Appender,
): Promise<Counts & { dry_run: boolean }> {
  const isDry = call.query['dry_run'] === 'true'
  const reader = readerOf(call.headers['content-type'] ?? '', place.table)
  const text = textOf(call.raw.request, maxBytes)
  let counts: Counts | undefined
  const work = async (tx: Tx): Promise<void> => {
    const run = new ImportRun({ tx, place, query: call.query, log, reader })
    await run.read(text)
    counts = await run.finish()
    if (isDry) throw new DryRun()
  }
  await db.txApart(call.who, work, { signal: call.departure }).catch((error: unknown) => {
    if (!(error instanceof DryRun)) throw error
  })
  return { ...(counts ?? { created: 0, updated: 0, skipped: 0 }), dry_run: isDry }
}

/** Rolls back what went well. */
class DryRun extends AppError {
  constructor() {
    super('internal', 'dry run')
  }
}

class ImportRun {
  readonly #tx: Tx
  readonly #place: Place
  readonly #query: Call['query']
  readonly #log: Appender
  readonly #reader: RowReader
  readonly #counts: Counts = { created: 0, updated: 0, skipped: 0 }
  readonly #faults: Fault[] = []
  readonly #statements = new Map<string, Sql>()
  #chunk: Good[] = []
  /** Rows that PostgreSQL is at work on while the next are read. */
  #landing = Promise.resolve()
  #characters = 0
  #rows = 0

  constructor(means: { tx: Tx; place: Place; query: Call['query']; log: Appender; reader: RowReader }) {
    const { tx, place, query, log, reader } = means
    this.#tx = tx
    this.#place = place
    this.#query = query
    this.#log = log
    this.#reader = reader
    // Refused before the first row, with the columns that every row could have.
    this.#conflict([...place.table.columns.values()])
  }

  async read(pieces: AsyncIterable<string>): Promise<void> {
    const reader = this.#reader
    try {
      for await (const piece of pieces) for (const row of reader.read(piece)) await this.#add(row)
      for (const row of reader.end()) await this.#add(row)
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error
      await this.#flush()
      await this.#landing
      this.#blame(error.line, error.message)
      throw this.#failure()
    }
  }

  async finish(): Promise<Counts> {
    await this.#flush()
    await this.#landing
    if (this.#faults.length > 0) throw this.#failure()
    if (this.#rows === 0) throw badRequest('no rows to import')
    await this.#tx.run(sql`set constraints all immediate`)
    return this.#counts
  }

  async #add(row: Incoming): Promise<void> {
    this.#rows++
    if ('fault' in row) {
      this.#blame(row.line, row.fault)
      return
    }
    const [first] = this.#chunk
    if (first && !isSame(first.columns, row.columns)) await this.#flush()
    this.#chunk.push(row)
    this.#characters += row.body.length
    if (this.#chunk.length >= CHUNK_ROWS || this.#characters >= CHUNK_CHARACTERS) await this.#flush()
  }

  async #flush(): Promise<void> {
    const chunk = this.#chunk
    this.#chunk = []
    this.#characters = 0
    if (chunk.length === 0) return
    await this.#landing
    this.#landing = this.#land(chunk)
    // Whoever waits for it next is told.
    this.#landing.catch(() => {})
  }

  /** A chunk that fails is taken again row by row, to find the lines that are to blame. */
  async #land(chunk: readonly Good[]): Promise<void> {
    if ((await this.#tried(chunk)) === undefined) return
    for (const row of chunk) {
      const error = await this.#tried([row])
      if (error) this.#blame(row.line, error.message)
    }
  }

  /** Undefined when the rows are in; what is no fault of theirs is thrown. */
  async #tried(rows: readonly Good[]): Promise<AppError | undefined> {
    try {
      await this.#insert(rows)
      return undefined
    } catch (error) {
      const columns = rows[0]?.columns ?? []
      // A row that policies refuse is no bad row: 403.
      if (!(error instanceof AppError) || !isBadRow(error)) throw error
      await this.#tx.run(UNDO)
      return explainWrite(error, columns)
    }
  }

  async #insert(rows: readonly Good[]): Promise<void> {
    const columns = rows[0]?.columns ?? []
    const key = columns.map(({ position }) => position).join()
    const input = inputOf(columns, this.#reader.hasJsonAsText)
    const statement =
      this.#statements.get(key) ?? buildImport(this.#place, columns, input, this.#conflict(columns), this.#log)
    this.#statements.set(key, statement)
    const bodies = `[${rows.map(({ body }) => body).join(',')}]`
    const [, counted] = await this.#tx.flyAll([SAVEPOINT, statement.fill([bodies]), RELEASE])
    const [created = 0, made = 0] = (counted ?? '').split(' ').map(Number)
    this.#counts.created += created
    this.#counts.updated += made - created
    this.#counts.skipped += rows.length - made
  }

  #conflict(columns: readonly Column[]): Conflict | undefined {
    const { onConflict: asked, merge } = this.#query
    return asked === undefined ? undefined : conflictOf(this.#place.table, asked, merge, columns)
  }

  #blame(line: number, message: string): void {
    this.#faults.push({ line, message })
    if (this.#faults.length >= MAX_FAULTS) throw this.#failure()
  }

  #failure(): AppError {
    const rows = this.#faults.sort((a, b) => a.line - b.line).slice(0, MAX_FAULTS)
    return new AppError('unprocessable', 'import failed', { data: { rows } })
  }
}

const SAVEPOINT = sql`savepoint svc_chunk`
const RELEASE = sql`release savepoint svc_chunk`
const UNDO = sql`rollback to savepoint svc_chunk`

const isSame = (some: readonly Column[], others: readonly Column[]): boolean =>
  some === others || (some.length === others.length && some.every((column, i) => column === others[i]))

/** Answers how many rows are new, and how many there are. */
function buildImport(
  place: Place,
  columns: readonly Column[],
  input: Sql,
  conflict: Conflict | undefined,
  log: Appender,
): Sql {
  const instead = conflict ? onConflict(place, conflict, log) : EMPTY
  return sql`with ${MADE} as (${insert(place, columns, input)}${instead}
      returning ${loggedOutcome(place)}, ${replaced(conflict)})
    select pg_catalog.concat(pg_catalog.count(*) filter (where ${IS_NEW}), ' ', pg_catalog.count(*)), ${logUpserts(place, log)}
    from ${MADE}`
}

const RAW = new Ident('svc_raw')
const isJson = ({ baseType }: Column): boolean => baseType === 'json' || baseType === 'jsonb'

/** The first slot holds the rows as a JSON array. A cell of CSV is the text of a JSON value, `null` included. */
function inputOf(columns: readonly Column[], hasJsonAsText: boolean): Sql {
  const rows = sql`pg_catalog.json_to_recordset(${slotAt(0)}::pg_catalog.json)`
  if (!hasJsonAsText || !columns.some(isJson)) return sql`${rows} as ${INPUT}(${definitions(columns)})`
  const given = columns.map((column) => (isJson(column) ? sql`${column.ident} text` : definitions([column])))
  const read = columns.map((column) =>
    isJson(column) ? sql`${RAW}.${column.ident}::${column.castType} as ${column.ident}` : sql`${RAW}.${column.ident}`,
  )
  return sql`(select ${join(read, COMMA)} from ${rows} as ${RAW}(${join(given, COMMA)})) as ${INPUT}`
}
