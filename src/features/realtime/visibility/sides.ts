import type { AppError } from '../../../core/errors.ts'
import type { Change } from '../../../db/changes/log.ts'
import { type Images, UNSEEN } from './sql.ts'

/** Which images of a change satisfy a question: that of the new row, that of the old row. */
export type Sides = { readonly now: boolean; readonly old: boolean }
export const BOTH: Sides = { now: true, old: true }
export const NEITHER: Sides = { now: false, old: false }

/** By the number of the change; changes of which neither side does are left out. */
export type SidesByNumber = Map<number, Sides>
/** PostgreSQL's answer, or why there is none. */
export type SidesOrError = SidesByNumber | AppError

/** Whether and how a change is sent: a row that the subscriber sees no more is gone as far as it is concerned. */
export function formOf(action: Change['action'], seen: Sides, match: Sides): 'full' | 'key' | undefined {
  // All who listen to the table read it anew.
  if (action === 'truncate') return 'full'
  if (action === 'create') return seen.now && match.now ? 'full' : undefined
  if (action === 'delete') return seen.old && match.old ? 'key' : undefined
  // A match on an old row that the subscriber could not see would tell what that row held.
  if (seen.now) return match.now || (match.old && seen.old) ? 'full' : undefined
  return seen.old && match.old ? 'key' : undefined
}

/** Reads `{t,f}|…` for live, partial, gone and old, as visibilityOf answers. Returns the numbers of the rows not found. */
export function readSides(text: string, { live, partial, gone, old }: Images, into: SidesByNumber): number[] {
  const unseen: number[] = []
  const lists = text.split('|')
  for (const [i, rows] of [live, partial, gone, old].entries()) {
    const list = lists[i] ?? ''
    for (const [k, n] of rows.numbers.entries()) {
      // Each answer is one letter after a brace or a comma.
      const letter = list[2 * k + 1]
      if (letter === UNSEEN) unseen.push(n)
      if (letter !== 't') continue
      const side = into.get(n) ?? NEITHER
      into.set(n, rows === old ? { ...side, old: true } : { ...side, now: true })
    }
  }
  return unseen
}
