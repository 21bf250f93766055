import { hasName } from './statements.ts'

/** Held up so often without an answer in time in between, a statement is not short. Once is an accident. */
const STRIKES = 2
/** How long after the last time a connection was held up. */
const LASTS_MS = 10_000
const MAX_STATEMENTS = 1_000

/**
 * Which statements are short, asked only while connections are held up: then a read that nobody knows, or that was long
 * before, is tried on a connection to itself, so that nothing waits behind it. Strangers who send long lists in a
 * thousand shapes wait for each other; the statements that a server is asked all day go on as ever.
 */
export class Suspicion {
  #until = 0
  readonly #strikes = new Map<string, number>()
  /** Answered in time while on trial. Statements that are not prepared have no other way to be known. */
  readonly #passed = new Set<string>()

  isOn(now: number): boolean {
    return now < this.#until
  }

  trusts(statement: string): boolean {
    if ((this.#strikes.get(statement) ?? 0) >= STRIKES) return false
    return this.#passed.has(statement) || hasName(statement)
  }

  /** Whether it was long before, rather than never seen. */
  condemns(statement: string): boolean {
    return (this.#strikes.get(statement) ?? 0) >= STRIKES
  }

  /** The statement has been at work for too long. Nothing is known of those in front of which it stood. */
  heldUp(statement: string, now: number): void {
    if (!this.isOn(now) || this.#strikes.size >= MAX_STATEMENTS) {
      this.#strikes.clear()
      this.#passed.clear()
    }
    this.#until = now + LASTS_MS
    this.#strikes.set(statement, (this.#strikes.get(statement) ?? 0) + 1)
  }

  inTime(statement: string): void {
    this.#strikes.delete(statement)
    if (this.#passed.size < MAX_STATEMENTS) this.#passed.add(statement)
  }
}
