import { budgets } from '../../core/budgets.ts'

/** `runs`: how often it was sent. */
type Named = { readonly name: string; readonly bytes: number; runs: number }

/** A statement without values, as the advisor sees it. */
export type StatementShape = {
  readonly name: string
  readonly text: string
  readonly role: string
  readonly runs: number
}

/** Counted for each statement beside its text: the shortest one has a plan too. */
const LEAST_BYTES = 1024

/** Names for statement texts by role, shared by the connections of a pool; the strings are kept, so looking them up is cheap. */
export class StatementNames {
  readonly #names = new Map<string, Map<string, Named>>()
  #bytes = 0
  #counter = 0

  get(text: string, role: string): Named {
    let byRole = this.#names.get(text)
    if (byRole === undefined) {
      this.#bytes += text.length
      if (this.#bytes > budgets.statementNamesBytes) {
        this.#names.clear() // names are never reused: the counter goes on
        this.#bytes = text.length
      }
      byRole = new Map()
      this.#names.set(text, byRole)
    }
    let named = byRole.get(role)
    if (named === undefined) {
      named = { name: `s${++this.#counter}`, bytes: text.length + LEAST_BYTES, runs: 0 }
      byRole.set(role, named)
    }
    named.runs++
    return named
  }

  /** What ran at least so often. */
  shapes(leastRuns: number): StatementShape[] {
    const found: StatementShape[] = []
    for (const [text, byRole] of this.#names) {
      for (const [role, { name, runs }] of byRole) if (runs >= leastRuns) found.push({ name, text, role, runs })
    }
    return found
  }
}

/** Statements that one flight may newly prepare, so that a batch of a thousand shapes does not keep them all. */
const MAX_NEW_IN_A_FLIGHT = 32

/**
 * What one connection has prepared, oldest use first. PostgreSQL re-plans a statement under RLS whenever the role
 * differs from the one it was planned for, so each role has statements of its own.
 */
export class StatementCache {
  /** Name → bytes of its text. */
  readonly #known = new Map<string, number>()
  readonly #names: StatementNames
  readonly #maxBytes: number
  /** To be closed in front of the next flight, where nothing can have failed yet, so that PostgreSQL gets to it. */
  #outdated: string[] = []
  #bytes = 0
  #newInFlight = 0

  constructor(names: StatementNames, maxBytes: number = budgets.preparedBytes) {
    this.#names = names
    this.#maxBytes = maxBytes
  }

  /** A flight begins; answers the names to close before its first statement. */
  begin(): readonly string[] {
    this.#newInFlight = 0
    if (this.#bytes > this.#maxBytes) this.#dropOldest()
    if (this.#outdated.length === 0) return NONE
    const outdated = this.#outdated
    this.#outdated = []
    return outdated
  }

  /** The statement's name on this connection; empty for one that is not kept. `isNew`: it must be parsed first. */
  prepare(text: string, role: string): { name: string; isNew: boolean } {
    if (text.length > budgets.preparedStatementBytes) return NOT_KEPT
    const { name, bytes } = this.#names.get(text, role)
    const isNew = !this.#known.delete(name)
    if (isNew) {
      if (++this.#newInFlight > MAX_NEW_IN_A_FLIGHT) return NOT_KEPT
      this.#bytes += bytes
    }
    this.#known.set(name, bytes)
    return { name, isNew }
  }

  /** PostgreSQL may or may not have it. */
  forget(name: string): void {
    const bytes = this.#known.get(name)
    if (bytes === undefined) return
    this.#known.delete(name)
    this.#bytes -= bytes
    this.#outdated.push(name)
  }

  forgetAll(): void {
    this.#outdated.push(...this.#known.keys())
    this.#known.clear()
    this.#bytes = 0
  }

  #dropOldest(): void {
    for (const name of this.#known.keys()) {
      if (this.#bytes <= this.#maxBytes) return
      this.forget(name)
    }
  }
}

const NONE: readonly string[] = []
const NOT_KEPT = { name: '', isNew: true } as const
