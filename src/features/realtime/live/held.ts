import { createHash } from 'node:crypto'
import type { Relayed } from '../../../db/db.ts'
import type { LiveRow } from '../../../db/rows/live-query.ts'

/** A row that clients hold, without its contents. `p`: its key as the change log has it. */
export type HeldRow = { readonly k: string; readonly p: string | null; readonly d: string }

/** Take the row with this key out, then put the new one in at its place. Keys and rows are JSON. */
export type LiveChange =
  | { readonly k: string; readonly at: number; readonly r: Relayed }
  | { readonly k: string; readonly gone: true }

/** What it takes in memory, about. */
const ROW_BYTES = 200
const LIST_BYTES = 2_000
export const bytesOf = (rows: readonly HeldRow[], name: string): number =>
  rows.reduce(
    (sum, { k, p, d }) => sum + ROW_BYTES + 2 * (k.length + (p?.length ?? 0) + d.length),
    LIST_BYTES + 2 * name.length,
  )

export const bytesOfValues = (values: readonly (readonly string[])[] = []): number =>
  values.flat().reduce((sum, value) => sum + ROW_BYTES + 2 * value.length, 0)

export const heldOf = (rows: readonly LiveRow[]): HeldRow[] =>
  rows.map(({ k, p, d }) => ({ k: k ?? '', p, d: d ?? '' }))

/** The digest of all rows, as the statement computes it. */
export const digestOfAll = (rows: readonly HeldRow[]): string =>
  createHash('sha256')
    .update(rows.map(({ d }) => d).join(''))
    .digest('hex')
    .slice(0, 32)

/** A table that others inherit from may show a key twice. */
export const hasTwins = (rows: readonly HeldRow[]): boolean => new Set(rows.map(({ k }) => k)).size < rows.length

/**
 * What makes `before` the rows of now, in order. A row whose digest is the same has not moved among those that stay. Undefined
 * when a row is needed that was not read.
 */
export function diffOf(before: readonly HeldRow[], now: readonly LiveRow[]): LiveChange[] | undefined {
  const known = new Set(before.map(({ d }) => d))
  const held = new Set(before.map(({ k }) => k))
  const wanted = now.map(({ k }) => k ?? '')
  const stays = new Set(wanted)
  const changed: Extract<LiveChange, { at: number }>[] = []
  for (const [at, { k, d, r }] of now.entries()) {
    if (known.has(d ?? '')) continue
    if (r === null) return undefined
    changed.push({ k: k ?? '', at, r })
  }
  const gone = before.flatMap(({ k }): LiveChange[] => (stays.has(k) ? [] : [{ k, gone: true }]))
  const changes = [...gone, ...changed]
  if (isSame(applied(before, changes), wanted)) return changes
  // Rows that wait for their new place to the left of others would shift these.
  const moved = changed.flatMap(({ k }): LiveChange[] => (held.has(k) ? [{ k, gone: true }] : []))
  return [...gone, ...moved, ...changed]
}

function applied(before: readonly HeldRow[], changes: readonly LiveChange[]): string[] {
  const keys = before.map(({ k }) => k)
  for (const change of changes) {
    const from = keys.indexOf(change.k)
    if (from >= 0) keys.splice(from, 1)
    if ('at' in change) keys.splice(change.at, 0, change.k)
  }
  return keys
}

const isSame = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((key, i) => key === other[i])
