import type pg from 'pg'
import { asConnectionError, isSyntaxError } from '../pg-errors.ts'

/** A result is cut beyond either limit, to bound memory. */
export const MAX_ROWS = 10_000
export const MAX_BYTES = 10 * 1024 * 1024
/** A single value beyond this size is refused. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024
const FETCH_ROWS = 500

type Texts = (string | null)[]

export type ScriptResult = {
  fields: pg.FieldDef[]
  /** Undefined for a statement that returns no rows. */
  rows: Texts[] | undefined
  affected: number
  /** Command tags of all statements, such as `CREATE TABLE`. */
  tags: string[]
  isCut: boolean
  /** What it took, with the statements before it where those are not kept. */
  durationMs: number
}

const NO_RESULT: ScriptResult = {
  fields: [],
  rows: undefined,
  affected: 0,
  tags: [],
  isCut: false,
  durationMs: 0,
}

/** The parts of the driver's connection used here; the driver's types do not declare them. */
type Wire = {
  stream: {
    on(event: 'data', listener: (chunk: Buffer) => void): void
    off(event: 'data', listener: (chunk: Buffer) => void): void
    destroy(): void
  }
  query(text: string): void
  parse(message: { name: string; text: string; types: readonly number[] }): void
  bind(message: { portal: string; statement: string; values: readonly string[] }): void
  describe(message: { type: 'P'; name: string }): void
  execute(message: { portal: string; rows: number }): void
  flush(): void
  sync(): void
  sendCopyFail(reason: string): void
  on(event: 'parseComplete', listener: () => void): void
  off(event: 'parseComplete', listener: () => void): void
}

export class TooLarge extends Error {}

/**
 * Runs the text on a connection of its own. A single statement is read through a portal, so that PostgreSQL makes no more
 * rows than are kept. Several statements run as one simple query, whose surplus rows are dropped on arrival. Resolves to the
 * results of all statements, or of the last; both limits are those of all that are kept.
 */
export async function execute(client: pg.Client, text: string, keepsAll: boolean): Promise<ScriptResult[]> {
  const single = new Execution(text, 'single', keepsAll)
  try {
    return await single.on(client)
  } catch (error) {
    // Before ParseComplete: several statements, or a syntax error that the second try reports as well.
    const isUnparsed = !single.isParsed && isSyntaxError(error)
    if (!isUnparsed) throw error
    return new Execution(text, 'script', keepsAll).on(client)
  }
}

/** Runs one statement; several are a syntax error. */
export const executeSingle = async (client: pg.Client, text: string, kept = NOTHING_KEPT): Promise<ScriptResult> =>
  (await new Execution(text, 'single', true, kept).on(client)).at(-1) ?? NO_RESULT

/** What other results of the same answer hold already. */
export type Kept = { readonly rows: number; readonly bytes: number }
const NOTHING_KEPT: Kept = { rows: 0, bytes: 0 }

export const keptBy = (results: readonly ScriptResult[]): Kept => ({
  rows: results.reduce((sum, { rows }) => sum + (rows?.length ?? 0), 0),
  bytes: results.reduce((sum, { rows }) => sum + bytesOf(rows ?? []), 0),
})

const bytesOf = (rows: readonly Texts[]): number =>
  rows.reduce((sum, row) => row.reduce((bytes, text) => bytes + 4 + (text?.length ?? 0), sum + 7), 0)

class Execution {
  readonly #text: string
  readonly #mode: 'single' | 'script'
  readonly #keepsAll: boolean
  readonly #results: ScriptResult[] = []
  #resolve: (results: ScriptResult[]) => void = () => {}
  #reject: (error: Error) => void = () => {}
  #wire: Wire | undefined
  #outcome: ScriptResult = { ...NO_RESULT, tags: [] }
  #isNewResult = true
  #keptBytes: number
  /** Of the results before this one that are kept. */
  #keptRows: number
  #startedAt = 0
  #unparsedBytes = 0
  #isSynced = false
  isParsed = false

  constructor(text: string, mode: 'single' | 'script', keepsAll: boolean, kept = NOTHING_KEPT) {
    this.#text = text
    this.#mode = mode
    this.#keepsAll = keepsAll
    this.#keptRows = kept.rows
    this.#keptBytes = kept.bytes
  }

  on(client: pg.Client): Promise<ScriptResult[]> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      client.query(this as unknown as pg.Submittable)
    })
  }

  submit(wire: Wire): null {
    this.#wire = wire
    this.#startedAt = performance.now()
    wire.stream.on('data', this.#onData)
    wire.on('parseComplete', this.#onParsed)
    if (this.#mode === 'script') {
      wire.query(this.#text)
      return null
    }
    wire.parse({ name: '', text: this.#text, types: [] })
    wire.bind({ portal: '', statement: '', values: [] })
    wire.describe({ type: 'P', name: '' })
    wire.execute({ portal: '', rows: FETCH_ROWS })
    wire.flush()
    return null
  }

  // The driver buffers a message until it is complete; this counts the bytes it has not parsed yet.
  readonly #onData = (chunk: Buffer): void => {
    this.#unparsedBytes += chunk.length
    if (this.#unparsedBytes <= MAX_MESSAGE_BYTES) return
    this.#reject(new TooLarge())
    this.#wire?.stream.destroy()
  }

  readonly #onParsed = (): void => {
    this.isParsed = true
  }

  #finish(): void {
    this.#wire?.stream.off('data', this.#onData)
    this.#wire?.off('parseComplete', this.#onParsed)
  }

  handleRowDescription({ fields }: { fields: pg.FieldDef[] }): void {
    this.#startResult()
    this.#outcome.fields = fields
    this.#outcome.rows = []
  }

  #startResult(): void {
    if (!this.#isNewResult) return
    this.#isNewResult = false
    if (this.#keepsAll) {
      this.#keptRows += this.#outcome.rows?.length ?? 0
      this.#outcome = { ...NO_RESULT, tags: [] }
      return
    }
    this.#keptBytes = 0
    this.#outcome = { ...NO_RESULT, tags: this.#outcome.tags }
  }

  #endResult(): void {
    const now = performance.now()
    this.#outcome.durationMs = now - this.#startedAt
    if (this.#keepsAll) this.#startedAt = now
    else this.#results.pop()
    this.#results.push(this.#outcome)
    this.#isNewResult = true
  }

  handleDataRow({ fields: texts, length }: { fields: Texts; length: number }): void {
    this.#unparsedBytes = 0
    const rows = this.#outcome.rows ?? []
    if (this.#keptRows + rows.length >= MAX_ROWS || this.#keptBytes + length > MAX_BYTES) {
      this.#outcome.isCut = true
      return
    }
    this.#keptBytes += length
    rows.push(texts)
  }

  handlePortalSuspended(): void {
    this.#unparsedBytes = 0
    if (this.#outcome.isCut) {
      this.#outcome.tags.push('SELECT')
      this.#endResult()
      this.#sync()
      return
    }
    this.#wire?.execute({ portal: '', rows: FETCH_ROWS })
    this.#wire?.flush()
  }

  handleCommandComplete({ text }: { text: string }): void {
    this.#startResult()
    this.#outcome.tags.push(text.replace(/( \d+)+$/, ''))
    this.#outcome.affected = Number(/\d+$/.exec(text)?.[0] ?? 0)
    this.#endResult()
    if (this.#mode === 'single') this.#sync()
  }

  handleEmptyQuery(): void {
    if (this.#mode === 'single') this.#sync()
  }

  /** Ends the implicit transaction; after an error PostgreSQL skips all messages until Sync. */
  #sync(): void {
    if (this.#isSynced) return
    this.#isSynced = true
    this.#wire?.sync()
  }

  handleCopyInResponse(wire: Wire): void {
    wire.sendCopyFail('COPY FROM STDIN is not possible here')
  }

  handleCopyData(): void {
    this.#unparsedBytes = 0
  }

  handleError(error: Error): void {
    if (this.#mode === 'single') this.#sync()
    this.#finish()
    this.#reject(asConnectionError(error))
  }

  handleReadyForQuery(): void {
    this.#finish()
    this.#resolve(this.#results)
  }
}
