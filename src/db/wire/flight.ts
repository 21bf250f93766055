import type pg from 'pg'
import type { AppError } from '../../core/errors.ts'
import type { Relayed } from '../db.ts'
import type { PgError } from '../pg-errors.ts'
import type { Sql } from '../sql.ts'
import { toRow, toText } from '../values.ts'
import type { Connection } from './connection.ts'
import { cellsOf, firstCell } from './data-rows.ts'
import type { Outbox } from './outbox.ts'
import type { StatementCache } from './statements.ts'

export type Step = { text: string; values: readonly (string | null)[] }

export function stepOf(statement: Sql): Step {
  const { text, values } = statement.render()
  return { text, values: values.map(toText) }
}

/**
 * `read`: short and repeatable; shares a connection with others, and is flown again when it is held up.
 * `write`: may wait for a lock, and happens once; has a connection to itself.
 * `slow`: may take long; as `write`, of which there may be fewer at a time.
 */
export type Work = 'read' | 'write' | 'slow'

export type FlightPlan = {
  readonly steps: readonly Step[]
  readonly role: string
  readonly work: Work
  /** Of each statement the first `value`, or of the last one all `rows` and their columns. */
  readonly wants: 'value' | 'rows'
  /** Long values stay the bytes that came; see Relayed. */
  readonly relays: boolean
  /** User code runs in it: what that left in the session is cleared away behind it. */
  readonly tidies: boolean
  readonly maxBytes: number
  /** Rows go here as they arrive, undecoded, and are not kept. No more come until what it answers is over. */
  readonly takeRows?: (messages: Buffer) => Promise<void> | undefined
}

type Ended = (flight: Flight, error: PgError | AppError | null) => void

/**
 * Several statements and one Sync: one network round trip and one implicit transaction, all or nothing.
 * After an error PostgreSQL skips to the Sync, so flights behind this one on the same connection are whole.
 */
export class Flight {
  readonly plan: FlightPlan
  readonly #ended: Ended
  /** What it is on, from the moment it is sent. */
  connection: Connection | undefined
  /** The flight that was sent in place of this one. */
  successor: Flight | undefined
  /** When the lane gives up waiting for a connection, in performance.now() milliseconds. */
  deadline = 0
  /** It is to end, so that it waits its turn as slow work. */
  isCutShort = false
  /** It is to end, because its caller left. */
  isLeft = false
  /** Its caller has an answer, or none is wanted any more; what still comes is dropped. */
  isOver = false
  /** The first column of the first row of each statement. */
  readonly relayed: (Relayed | null)[] = []
  /** The rows of the last statement. */
  found: (Relayed | null)[][] = []
  fields: pg.FieldDef[] = []
  tag = ''
  bytes = 0
  #text: Relayed | null = null
  #hasText = false
  /** Names this flight had to parse, in order; ParseComplete tells how many of them PostgreSQL knows. */
  parsed: string[] | undefined
  parsedCount = 0

  constructor(plan: FlightPlan, ended: Ended) {
    this.plan = plan
    this.#ended = ended
  }

  /** The same once more, for the same caller. This one's answer is no longer wanted. */
  again(work: Work = this.plan.work): Flight {
    const flight = new Flight(work === this.plan.work ? this.plan : { ...this.plan, work }, this.#ended)
    flight.deadline = this.deadline
    this.successor = flight
    this.isOver = true
    return flight
  }

  /** The same where texts were wanted. */
  get texts(): (string | null)[] {
    return this.relayed as (string | null)[]
  }

  rows<T extends object>(): T[] {
    return this.found.map((cells) => toRow(this.fields, cells) as T)
  }

  /** How many rows the last statement returned or changed. */
  get count(): number {
    return Number(/(\d+)$/.exec(this.tag)?.[1] ?? 0)
  }

  /** Nobody wants PostgreSQL to go on with it. */
  get isUnwanted(): boolean {
    return this.isOver || this.isCutShort || this.isLeft
  }

  get work(): Work {
    return this.plan.work
  }

  /** The text that says what it does; what stands in front of it is the session's. */
  get statement(): string {
    return this.plan.steps[this.plan.steps.length - 1]?.text ?? ''
  }

  board(connection: Connection): void {
    connection.send(this)
  }

  end(error: PgError | AppError | null): void {
    if (this.isOver) return
    this.isOver = true
    this.#ended(this, error)
  }

  write(outbox: Outbox, statements: StatementCache | undefined): void {
    const { steps, role, wants } = this.plan
    if (statements) for (const name of statements.begin()) outbox.close(name)
    for (let i = 0; i < steps.length; i++) {
      const { text, values } = steps[i] as Step
      const { name, isNew } = statements ? statements.prepare(text, role) : UNNAMED
      if (isNew) {
        outbox.parse(name, text)
        this.parsed ??= []
        this.parsed.push(name)
      }
      outbox.bind(name, values)
      if (wants === 'rows' && i === steps.length - 1) outbox.describe()
      outbox.execute()
    }
    outbox.sync()
  }

  /** A DataRow whose number of cells stands at `at`. */
  row(bytes: Buffer, at: number, end: number): void {
    if (this.isOver) return
    this.bytes += end - at
    if (this.bytes > this.plan.maxBytes) {
      this.connection?.refuseAnswer()
      return
    }
    const { wants, relays } = this.plan
    if (wants === 'rows') this.found.push(cellsOf(bytes, at, relays))
    else if (!this.#hasText) {
      this.#text = firstCell(bytes, at, relays)
      this.#hasText = true
    }
  }

  /** A statement is done. Of the last one is kept what PostgreSQL calls what it did. */
  complete(bytes: Buffer, start: number, end: number): void {
    this.relayed.push(this.#text)
    this.#text = null
    this.#hasText = false
    if (this.relayed.length === this.plan.steps.length) this.tag = bytes.toString('latin1', start, end)
    else if (this.found.length > 0) this.found = []
  }
}

const UNNAMED = { name: '', isNew: true } as const
