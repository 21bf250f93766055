import pg from 'pg'
import type { PgError } from '../pg-errors.ts'

export type Step = { text: string; values: readonly (string | null)[] }

/** What one statement answered. `fields` is there only when the flight asked for descriptions. */
export type StepResult = { rows: (string | null)[][]; fields: pg.FieldDef[]; count: number; tag: string }

/** The parts of the driver's connection that a flight uses; the driver's types do not declare them. */
export type Wire = {
  stream: { cork(): void; uncork(): void; destroy(): void }
  parse(message: { name: string; text: string; types: readonly number[] }): void
  bind(message: { portal: string; statement: string; values: readonly (string | null)[] }): void
  describe(message: { type: 'P' | 'S'; name: string }): void
  execute(message: { portal: string; rows: number }): void
  close(message: { type: 'S'; name: string }): void
  sync(): void
  on(event: 'parseComplete', heard: () => void): void
}

/** How a connection names its prepared statements; see StatementCache. */
export type Naming = {
  /** The statement's name on this connection, whether it must be sent first, and names to close before that. */
  prepare(text: string): { name: string; isNew: boolean; close: readonly string[] }
}

/**
 * Several statements and one Sync: one network round trip and one implicit transaction, all or nothing.
 * After an error PostgreSQL skips to the Sync, so flights behind this one on the same connection are whole.
 */
export class Flight {
  readonly #steps: readonly Step[]
  readonly #naming: Naming
  readonly #describe: boolean
  readonly #done: (error: PgError | null, results: StepResult[]) => void
  readonly #results: StepResult[] = []
  #rows: (string | null)[][] = []
  #fields: pg.FieldDef[] = []
  /** Names this flight had to parse, in order; ParseComplete tells how many of them PostgreSQL knows. */
  readonly parsed: string[] = []
  parsedCount = 0

  constructor(
    steps: readonly Step[],
    naming: Naming,
    /** Asks for the columns of the last statement's rows. */
    describe: boolean,
    done: (error: PgError | null, results: StepResult[]) => void,
  ) {
    this.#steps = steps
    this.#naming = naming
    this.#describe = describe
    this.#done = done
  }

  submit(wire: Wire): null {
    const last = this.#steps.length - 1
    for (const [i, step] of this.#steps.entries()) {
      const { name, isNew, close } = this.#naming.prepare(step.text)
      for (const outdated of close) wire.close({ type: 'S', name: outdated })
      if (isNew) {
        wire.parse({ name, text: step.text, types: [] })
        if (name !== '') this.parsed.push(name)
      }
      wire.bind({ portal: '', statement: name, values: step.values })
      if (this.#describe && i === last) wire.describe({ type: 'P', name: '' })
      wire.execute({ portal: '', rows: 0 })
    }
    wire.sync()
    return null
  }

  handleRowDescription(message: { fields: pg.FieldDef[] }): void {
    this.#fields = message.fields
  }

  handleDataRow(message: { fields: (string | null)[] }): void {
    this.#rows.push(message.fields)
  }

  handleCommandComplete(message: { text: string }): void {
    const count = Number(/(\d+)$/.exec(message.text)?.[1] ?? 0)
    this.#results.push({ rows: this.#rows, fields: this.#fields, count, tag: message.text })
    this.#rows = []
    this.#fields = []
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete({ text: '' })
  }

  handleError(error: PgError): void {
    error.statementIndex = this.#results.length
    this.#done(error, this.#results)
  }

  handleReadyForQuery(): void {
    this.#done(null, this.#results)
  }
}

// A pipelined client accepts custom queries only when they are instances of pg.Query. Its constructor prepares an
// event emitter and a result set that a flight has no use for, so only the prototype is taken over.
Object.setPrototypeOf(Flight.prototype, pg.Query.prototype)
