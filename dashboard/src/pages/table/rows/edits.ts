import { createStore, type Store } from '../../../parts/store.ts'
import type { RowData } from './row-pages.ts'

export type NewRow = { id: string; values: ReadonlyMap<string, unknown> }
export type Problem = { message: string; columns: readonly string[]; error: unknown }

/** What was changed and not saved. Keys of rows are texts, as in addresses. */
export type Edits = {
  updated: ReadonlyMap<string, { row: RowData; values: ReadonlyMap<string, unknown> }>
  created: readonly NewRow[]
  deleted: ReadonlyMap<string, RowData>
  problems: ReadonlyMap<string, Problem>
}

export type EditStore = Store<Edits>

const NONE: Edits = { updated: new Map(), created: [], deleted: new Map(), problems: new Map() }

const all = new Map<string, Store<Edits>>()

/** Of a table, for as long as the page lives: leaving the table loses nothing. */
export function editsOf(table: string): Store<Edits> {
  const known = all.get(table)
  if (known) return known
  const made = createStore(NONE)
  all.set(table, made)
  return made
}

addEventListener('beforeunload', (event) => {
  if ([...all.values()].some((store) => changeCount(store.get()) > 0)) event.preventDefault()
})

/** Cells that were changed, and rows that go. */
export const changeCount = ({ updated, created, deleted }: Edits): number =>
  [...updated.values()].reduce((sum, { values }) => sum + values.size, 0) +
  created.reduce((sum, { values }) => sum + Math.max(1, values.size), 0) +
  deleted.size

const without = <V>(map: ReadonlyMap<string, V>, key: string): Map<string, V> => {
  const rest = new Map(map)
  rest.delete(key)
  return rest
}

/** What was changed in one row is as it was. */
export function takeBack(store: Store<Edits>, key: string): void {
  const edits = store.get()
  store.set({
    updated: without(edits.updated, key),
    created: edits.created.filter(({ id }) => id !== key),
    deleted: without(edits.deleted, key),
    problems: without(edits.problems, key),
  })
}

export const discard = (store: Store<Edits>): void => store.set(NONE)

let ids = 0

export function addRow(store: Store<Edits>, values: Iterable<readonly [string, unknown]> = []): string {
  const id = `new ${++ids}`
  const edits = store.get()
  store.set({ ...edits, created: [...edits.created, { id, values: new Map(values) }] })
  return id
}

const isSame = (a: unknown, b: unknown): boolean =>
  a === b || (a !== undefined && b !== undefined && JSON.stringify(toPlain(a)) === JSON.stringify(toPlain(b)))
const toPlain = (value: unknown): unknown => (typeof value === 'number' ? String(value) : value)

/** A value of `undefined` takes the change back; in a new row it means the default. */
export function setCell(store: Store<Edits>, key: string, column: string, value: unknown, row?: RowData): void {
  const edits = store.get()
  const problems = without(edits.problems, key)
  if (!row) {
    const created = edits.created.map((made) =>
      made.id === key
        ? {
            ...made,
            values: value === undefined ? without(made.values, column) : new Map(made.values).set(column, value),
          }
        : made,
    )
    store.set({ ...edits, created, problems })
    return
  }
  const before = edits.updated.get(key)
  const original = before?.row ?? row
  const isBack = value === undefined || isSame(original[column], value)
  const values = isBack ? without(before?.values ?? new Map(), column) : new Map(before?.values).set(column, value)
  const updated =
    values.size === 0 ? without(edits.updated, key) : new Map(edits.updated).set(key, { row: original, values })
  store.set({ ...edits, updated, problems })
}

export function markDeleted(
  store: Store<Edits>,
  rows: readonly (readonly [key: string, row: RowData | undefined])[],
): void {
  const edits = store.get()
  const deleted = new Map(edits.deleted)
  const dropped = new Set<string>()
  for (const [key, row] of rows) {
    if (row) deleted.set(key, row)
    else dropped.add(key)
  }
  store.set({ ...edits, deleted, created: edits.created.filter(({ id }) => !dropped.has(id)) })
}
