import type pg from 'pg'
import { budgets } from '../../core/budgets.ts'
import type { AppError } from '../../core/errors.ts'
import type { Relayed } from '../db.ts'
import type { PgError } from '../pg-errors.ts'
import type { Sql } from '../sql.ts'
import { toRows, toText } from '../values.ts'
import { cellsOf, firstCell } from './data-rows.ts'
import type { Outbox } from './outbox.ts'
import type { StatementCache } from './statements.ts'

export type Step = { text: string; values: readonly (string | null)[] }

export function stepOf(statement: Sql): Step {
  const { text, values } = statement.render()
  return { text, values: values.map(toText) }
}

export type FlightPlan = {
  readonly steps: readonly Step[]
  readonly role: string
  /** Of each statement the first value, or of the last one all rows and their columns. Default: values. */
  readonly wantsRows?: boolean
  /** Long values stay the bytes that came; see Relayed. */
  readonly asBytes?: boolean
  /** Bytes of rows that it may answer. */
  readonly maxBytes?: number | undefined
  /** Rows go here as they arrive, undecoded, and are not kept. No more come until what it answers is over. */
  readonly takeRows?: ((messages: Buffer) => Promise<void> | undefined) | undefined
}

/** Called once: all of the answer is here, or none will come. */
export type OnDone = (error: PgError | AppError | null, flight: Flight) => void

/**
 * Several statements and one Sync: one network round trip and one implicit transaction, all or nothing.
 * After an error PostgreSQL skips to the Sync, so later flights on the same connection are not affected.
 */
export class Flight {
  readonly plan: FlightPlan
  readonly #onDone: OnDone
  readonly #asBytes: boolean
  readonly #maxBytes: number
  readonly #values: (Relayed | null)[] = []
  #rows: (Relayed | null)[][] = []
  #fields: readonly pg.FieldDef[] = []
  #tag = ''
  #bytes = 0
  #value: Relayed | null = null
  #hasValue = false
  #isOver = false
  /** Names that had to be parsed, in order; the number of ParseComplete messages shows which of them PostgreSQL has. */
  #parsed: string[] | undefined
  #parsedCount = 0

  constructor(plan: FlightPlan, onDone: OnDone) {
    this.plan = plan
    this.#onDone = onDone
    this.#asBytes = plan.asBytes === true
    this.#maxBytes = plan.maxBytes ?? budgets.responseBytes
  }

  /** The first column of the first row of each statement; texts, unless bytes were requested. */
  get values(): readonly (Relayed | null)[] {
    return this.#values
  }

  rows<T extends object>(): T[] {
    return toRows(this.#fields, this.#rows) as T[]
  }

  /** What PostgreSQL calls what the last statement did. */
  get tag(): string {
    return this.#tag
  }

  /** How many rows the last statement returned or changed. */
  get count(): number {
    return Number(/(\d+)$/.exec(this.#tag)?.[1] ?? 0)
  }

  /** Further messages are dropped. */
  get isOver(): boolean {
    return this.#isOver
  }

  end(error: PgError | AppError | null): void {
    if (this.#isOver) return
    this.#isOver = true
    if (error) this.#rows = []
    this.#onDone(error, this)
  }

  write(outbox: Outbox, statements: StatementCache | undefined): void {
    const { steps, role, wantsRows } = this.plan
    if (statements) for (const name of statements.begin()) outbox.close(name)
    for (let i = 0; i < steps.length; i++) {
      const { text, values } = steps[i] as Step
      const { name, isNew } = statements ? statements.prepare(text, role) : UNNAMED
      if (isNew) {
        outbox.parse(name, text)
        this.#parsed ??= []
        this.#parsed.push(name)
      }
      outbox.bind(name, values)
      if (wantsRows && i === steps.length - 1) outbox.describe()
      outbox.execute()
    }
    outbox.sync()
  }

  fields(fields: readonly pg.FieldDef[]): void {
    this.#fields = fields
  }

  parseComplete(): void {
    this.#parsedCount++
  }

  /** Names that were to be parsed, and of which PostgreSQL did not say that they were. */
  get unparsed(): readonly string[] {
    return this.#parsed?.slice(this.#parsedCount) ?? []
  }

  /** Bytes of rows that arrived. */
  get bytes(): number {
    return this.#bytes
  }

  /** Whether so many bytes more are within what it may answer. */
  hasRoomFor(bytes: number): boolean {
    return this.#bytes + bytes <= this.#maxBytes
  }

  /** A DataRow whose number of cells is at `at`. */
  row(bytes: Buffer, at: number, end: number): void {
    this.#bytes += end - at
    if (this.plan.wantsRows) this.#rows.push(cellsOf(bytes, at, this.#asBytes))
    else if (!this.#hasValue) {
      this.#value = firstCell(bytes, at, this.#asBytes)
      this.#hasValue = true
    }
  }

  /** A statement is done. */
  complete(bytes: Buffer, start: number, end: number): void {
    this.#values.push(this.#value)
    this.#value = null
    this.#hasValue = false
    if (this.#values.length === this.plan.steps.length) this.#tag = bytes.toString('latin1', start, end)
    else if (this.#rows.length > 0) this.#rows = []
  }
}

const UNNAMED = { name: '', isNew: true } as const
