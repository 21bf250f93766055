import type { Naming } from './flight.ts'

/** Names for statement texts by role, shared by all connections; the strings are kept, so looking them up is cheap. */
const names = new Map<string, Record<string, string>>()
let counter = 0
const MAX_NAMES = 20_000

function nameOf(text: string, role: string): string {
  let byRole = names.get(text)
  if (byRole === undefined) {
    if (names.size >= MAX_NAMES) names.clear() // names are never reused: the counter goes on
    byRole = {}
    names.set(text, byRole)
  }
  byRole[role] ??= `s${++counter}`
  return byRole[role]
}

/**
 * What one connection has prepared, oldest use first. PostgreSQL re-plans a statement under RLS whenever the role
 * differs from the one it was planned for, so each role has statements of its own.
 */
export class StatementCache {
  readonly #known = new Map<string, true>()
  /** Closed before they are parsed again: PostgreSQL may or may not still have them. */
  readonly #doubtful = new Set<string>()
  readonly #namings: Record<string, Naming> = {}
  readonly #max: number

  constructor(max = 500) {
    this.#max = max
  }

  naming(role: string): Naming {
    this.#namings[role] ??= this.#namingOf(role)
    return this.#namings[role]
  }

  #namingOf(role: string): Naming {
    return {
      prepare: (text) => {
        const name = nameOf(text, role)
        const isNew = !this.#known.delete(name)
        this.#known.set(name, true)
        if (!isNew) return { name, isNew, close: NONE }
        const close = this.#doubtful.delete(name) ? [name] : []
        if (this.#known.size > this.#max) close.push(...this.#dropOldest())
        return { name, isNew, close }
      },
    }
  }

  forget(name: string): void {
    if (this.#known.delete(name)) this.#doubtful.add(name)
  }

  forgetAll(): void {
    for (const name of this.#known.keys()) this.#doubtful.add(name)
    this.#known.clear()
  }

  #dropOldest(): string[] {
    const [name] = this.#known.keys()
    if (name === undefined) return []
    this.#known.delete(name)
    return [name]
  }
}

const NONE: readonly string[] = []

/** For poolers that cannot keep prepared statements: the unnamed statement, parsed each time. */
export const UNNAMED: Naming = { prepare: () => ({ name: '', isNew: true, close: NONE }) }
