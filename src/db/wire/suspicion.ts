import { budgets } from '../../core/budgets.ts'

/** Held up so often without an answer in time in between, a statement is not short. Once is an accident. */
const STRIKES = 2
/** How long after the last time a connection was held up. */
const LASTS_MS = 10_000
const MAX_STRUCK = 1_000

/**
 * Which statements are short: those that were answered in time before. Of all others nobody knows, so each is tried on a
 * connection to itself, and nothing waits behind it. While connections are held up there are few such trials at a time:
 * strangers who send long lists in a thousand shapes wait for each other.
 */
export class Suspicion {
  #until = 0
  readonly #strikes = new Map<string, number>()
  /** Texts that were answered in time; the strings are kept with the statements' names. */
  readonly #proven = new Set<string>()
  #provenBytes = 0

  isOn(now: number): boolean {
    return now < this.#until
  }

  trusts(statement: string): boolean {
    return this.#proven.has(statement) && !this.condemns(statement)
  }

  /** Whether it was long before, rather than never seen. */
  condemns(statement: string): boolean {
    return this.#strikes.size > 0 && (this.#strikes.get(statement) ?? 0) >= STRIKES
  }

  /** The statement has been at work for too long. Nothing is known of those in front of which it stood. */
  heldUp(statement: string, now: number): void {
    if (!this.isOn(now) || this.#strikes.size >= MAX_STRUCK) this.#strikes.clear()
    this.#until = now + LASTS_MS
    this.#strikes.set(statement, (this.#strikes.get(statement) ?? 0) + 1)
  }

  inTime(statement: string): void {
    if (this.#strikes.size > 0) this.#strikes.delete(statement)
    if (this.#proven.has(statement) || statement.length > budgets.preparedStatementBytes) return
    this.#provenBytes += statement.length
    if (this.#provenBytes > budgets.statementNamesBytes) {
      this.#proven.clear()
      this.#provenBytes = statement.length
    }
    this.#proven.add(statement)
  }
}
