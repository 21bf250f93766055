import type { Naming } from './flight.ts'

/** Names for statement texts, shared by all connections so that one text has one name everywhere. */
const names = new Map<string, string>()
let counter = 0
const MAX_NAMES = 20_000

function nameOf(text: string): string {
  let name = names.get(text)
  if (name === undefined) {
    if (names.size >= MAX_NAMES) names.clear() // never reused: the counter goes on
    name = `s${++counter}`
    names.set(text, name)
  }
  return name
}

/**
 * What one connection has prepared, oldest use first. PostgreSQL re-plans a statement under RLS whenever the role
 * differs from the one it was planned for, so the role is part of the name.
 */
export class StatementCache {
  readonly #known = new Map<string, true>()
  readonly #max: number

  constructor(max = 500) {
    this.#max = max
  }

  naming(role: string): Naming {
    return {
      prepare: (text) => {
        const name = `${nameOf(text)}_${role}`
        const isNew = !this.#known.delete(name)
        this.#known.set(name, true)
        const evict = this.#known.size > this.#max ? this.#oldest() : undefined
        return { name, isNew, evict }
      },
    }
  }

  /** PostgreSQL does not have it (any more): parse it again next time. */
  forget(name: string): void {
    this.#known.delete(name)
  }

  clear(): void {
    this.#known.clear()
  }

  #oldest(): string | undefined {
    const [name] = this.#known.keys()
    if (name !== undefined) this.#known.delete(name)
    return name
  }
}

/** For poolers that cannot keep prepared statements: the unnamed statement, parsed each time. */
export const UNNAMED: Naming = { prepare: () => ({ name: '', isNew: true, evict: undefined }) }
