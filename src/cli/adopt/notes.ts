import type { Note } from './plan.ts'

/** Of one kind, named one by one; the rest are counted. */
const NAMED = 1000

/** Notes about single users or files, of which there may be millions. */
export class ManyNotes {
  readonly #kinds = new Map<string, { level: Note['level']; why: string; named: string[]; count: number }>()

  add(level: Note['level'], what: string, why: string): void {
    const kind = this.#kinds.get(why) ?? { level, why, named: [], count: 0 }
    this.#kinds.set(why, kind)
    kind.count++
    if (kind.named.length < NAMED) kind.named.push(what)
  }

  list(): Note[] {
    return [...this.#kinds.values()].flatMap(({ level, why, named, count }) => [
      ...named.map((what) => ({ level, what, why })),
      ...(count > named.length ? [{ level, what: `${count - named.length} more`, why }] : []),
    ])
  }
}
