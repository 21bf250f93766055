import { budgets } from '../../core/budgets.ts'
import { MAX_KNOWN_SLOW, SLOW_FOR_MS } from './tuning.ts'

/** Which statements are short, by their text: reads that PostgreSQL answered within the limit, writes that it did not cut. */
export class StatementTimings {
  /** The strings are kept with the statements' names. */
  readonly #fast = new Set<string>()
  #fastBytes = 0
  /** Text → until when. */
  readonly #slow = new Map<string, number>()
  #slowBytes = 0
  /** Small writes that were cut on a shared connection and are tried alone: while one waits for a lock, more of them would too. */
  readonly #retried = new Map<string, number>()

  isKnownFast(text: string): boolean {
    return this.#fast.has(text)
  }

  isKnownSlow(text: string, now: number): boolean {
    const until = this.#slow.get(text)
    if (until === undefined) return false
    if (until > now) return true
    this.#slow.delete(text)
    this.#slowBytes -= text.length
    return false
  }

  /** It was answered within the limit. */
  inTime(text: string): void {
    if (text.length > budgets.preparedStatementBytes || this.#fast.has(text)) return
    this.#fastBytes += text.length
    if (this.#fastBytes > budgets.statementNamesBytes) {
      this.#fast.clear()
      this.#fastBytes = text.length
    }
    this.#fast.add(text)
  }

  /** It was cut on a connection of its own; on a shared one the cause may be a busy machine. */
  tooLong(text: string, now: number): void {
    if (this.#fast.delete(text)) this.#fastBytes -= text.length
    if (!this.#slow.has(text)) this.#slowBytes += text.length
    if (this.#slow.size >= MAX_KNOWN_SLOW || this.#slowBytes > budgets.statementNamesBytes) {
      this.#slow.clear()
      this.#slowBytes = text.length
    }
    this.#slow.set(text, now + SLOW_FOR_MS)
  }

  retry(text: string): void {
    this.#retried.set(text, (this.#retried.get(text) ?? 0) + 1)
  }

  endRetry(text: string): void {
    const left = (this.#retried.get(text) ?? 1) - 1
    if (left > 0) this.#retried.set(text, left)
    else this.#retried.delete(text)
  }

  isRetried(text: string): boolean {
    return this.#retried.has(text)
  }
}
