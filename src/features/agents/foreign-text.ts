import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { tableByOid } from '../../db/schema/lookup.ts'
import type { Schema, Table } from '../../db/schema/snapshot.ts'
import { type Difference, tableByLabel } from './difference.ts'
import { columnsOfText, hasForeignText, type Marks, textsIn } from './marks.ts'
import * as q from './sql.ts'

type Shown = { table?: string; key?: unknown; changes?: Readonly<Record<string, { old?: unknown; new?: unknown }>> }
const OLD_AND_NEW: ReadonlySet<string> = new Set(['old', 'new'])

/** A new text in a table of the caller's own, with what the same row held before. */
type NewText = { readonly column: string; readonly text: string; readonly before: string }

/** Of a write: what was sent, functions that it calls. */
type Origin = { readonly sent: string; readonly functions: readonly number[] }

/** Finds text of others in what a write shows. */
export class ForeignText {
  readonly #own: Db
  readonly #marks: Marks

  constructor(own: Db, marks: Marks) {
    this.#own = own
    this.#marks = marks
  }

  /** The columns that others may have written, of whose text a difference shows more than the caller sent. */
  async columnsIn(schema: Schema, difference: Difference, { sent, functions }: Origin): Promise<readonly string[]> {
    const found = new Set<string>()
    const own: NewText[] = []
    const ownBefore: unknown[] = []
    const names = new Set<string>()
    for (const shown of JSON.parse(difference.changes) as Shown[]) {
      const { table: label = '', key, changes: columns = {} } = shown
      const table = tableByLabel(schema, label)
      if (!table) continue
      const others = await this.#marks.othersColumns(schema, table)
      const isForeign = (value: unknown): boolean => hasForeignText(value, sent, OLD_AND_NEW)
      if (others.length > 0 && (isForeign(key) || others.some((name) => isForeign(columns[name])))) {
        for (const name of others) found.add(`${label}.${name}`)
      }
      if (others.length > 0) continue
      for (const name of table.columns.keys()) names.add(name)
      ownBefore.push(...Object.values(columns).map(({ old }) => old))
      own.push(...newTexts(table, label, columns))
    }
    const known = sent + JSON.stringify(ownBefore)
    const isKnown = ({ text, before }: NewText): boolean =>
      names.has(text) ||
      difference.generated.has(text) ||
      !hasForeignText(text, known) ||
      isMadeOf(text, `${sent} ${before}`)
    const strange = own.filter((one) => !isKnown(one))
    for (const { column } of await this.#copied(schema, strange, difference, functions)) found.add(column)
    return [...found]
  }

  /** Text cannot be of others where nothing of theirs was read, nor where the operator's code says it. */
  async #copied(
    schema: Schema,
    strange: readonly NewText[],
    { read, oids }: Difference,
    functions: readonly number[],
  ): Promise<readonly NewText[]> {
    if (strange.length === 0) return strange
    const [words, isElsewhere] = await this.#own.fly(SYSTEM, [q.wordsOfCode(oids), q.readsElsewhere(functions, oids)])
    const left = strange.filter(({ text, before }) => !isMadeOf(text, `${words ?? ''} ${before}`))
    if (left.length === 0 || isElsewhere !== 'false') return left
    for (const oid of read) {
      const table = tableByOid(schema, oid)
      // Of a table that is not exposed nothing is known.
      if (!table || (await this.#marks.othersColumns(schema, table)).length > 0) return left
    }
    return []
  }
}

function newTexts(table: Table, label: string, columns: Shown['changes'] = {}): NewText[] {
  const before = JSON.stringify(Object.values(columns).map(({ old }) => old))
  return columnsOfText(table).flatMap((name) => {
    // What is generated of other columns says nothing that they do not.
    if (table.columns.get(name)?.isGenerated) return []
    return textsIn(columns[name]?.new).map((text) => ({ column: `${label}.${name}`, text, before }))
  })
}

const wordsIn = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []

/** Whether a text has no other words than another one: a slug, a label, what was cut off. */
function isMadeOf(text: string, other: string): boolean {
  const [words, known] = [wordsIn(text), wordsIn(other)]
  const all = new Set(known)
  return words.every((word) => all.has(word) || /^\d+$/.test(word)) || known.join(' ').includes(words.join(' '))
}
