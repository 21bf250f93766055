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
 * rows than are kept. Several statements run as one simple query, whose surplus rows are dropped on arrival.
 */
export async function execute(client: pg.Client, text: string): Promise<ScriptResult> {
  const single = new Execution(text, 'single')
  try {
    return await single.on(client)
  } catch (error) {
    // Before ParseComplete: several statements, or a syntax error that the second try reports as well.
    const isUnparsed = !single.isParsed && isSyntaxError(error)
    if (!isUnparsed) throw error
    return new Execution(text, 'script').on(client)
  }
}

/** Runs one statement; several are a syntax error. */
export const executeSingle = (client: pg.Client, text: string): Promise<ScriptResult> =>
  new Execution(text, 'single').on(client)

class Execution {
  readonly #text: string
  readonly #mode: 'single' | 'script'
  #resolve: (outcome: ScriptResult) => void = () => {}
  #reject: (error: Error) => void = () => {}
  #wire: Wire | undefined
  #outcome: ScriptResult = { fields: [], rows: undefined, affected: 0, tags: [], isCut: false }
  #isNewResult = true
  #keptBytes = 0
  #unparsedBytes = 0
  #isSynced = false
  isParsed = false

  constructor(text: string, mode: 'single' | 'script') {
    this.#text = text
    this.#mode = mode
  }

  on(client: pg.Client): Promise<ScriptResult> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      client.query(this as unknown as pg.Submittable)
    })
  }

  submit(wire: Wire): null {
    this.#wire = wire
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

  /** Only the last statement's result is kept. */
  #startResult(): void {
    if (!this.#isNewResult) return
    this.#isNewResult = false
    this.#keptBytes = 0
    this.#outcome = { ...this.#outcome, fields: [], rows: undefined, affected: 0, isCut: false }
  }

  handleDataRow({ fields: texts, length }: { fields: Texts; length: number }): void {
    this.#unparsedBytes = 0
    const rows = this.#outcome.rows ?? []
    if (rows.length >= MAX_ROWS || this.#keptBytes + length > MAX_BYTES) {
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
      this.#sync()
      return
    }
    this.#wire?.execute({ portal: '', rows: FETCH_ROWS })
    this.#wire?.flush()
  }

  handleCommandComplete({ text }: { text: string }): void {
    this.#startResult()
    this.#isNewResult = true
    this.#outcome.tags.push(text.replace(/( \d+)+$/, ''))
    this.#outcome.affected = Number(/\d+$/.exec(text)?.[0] ?? 0)
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
    this.#resolve(this.#outcome)
  }
}
