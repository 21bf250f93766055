import { reasonOf } from '../core/errors.ts'
import { SYSTEM } from '../core/identity.ts'
import type { WordsBetween } from '../core/observations.ts'
import type { Observe } from '../core/observe.ts'
import type { Db } from './db.ts'
import { Loop } from './loop.ts'
import type { Sql } from './sql.ts'

/** Keeps the sweep out of the start-up. */
const FIRST_MS = 10_000
const EVERY_MS = 600_000
/** Between slices of a large backlog. */
const PAUSE_MS = 100
const SLICE = 1000

/** A statement that removes at most `limit` rows. */
export type RemoveSlice = (limit: number) => Sql

/** Removes expired rows every ten minutes, a slice of each kind, with short pauses while full slices remain. */
export const sweep = (deps: {
  db: Db
  observe: Observe
  what: WordsBetween<'', ' not removed'>
  remove: readonly RemoveSlice[]
}): Loop =>
  new Loop({
    step: async () => {
      let hasMore = false
      for (const slice of deps.remove) hasMore = (await removeSlice(deps.db, slice)) >= SLICE || hasMore
      return hasMore ? PAUSE_MS : undefined
    },
    everyMs: EVERY_MS,
    firstMs: FIRST_MS,
    onFailure: (error) => deps.observe({ message: `${deps.what} not removed`, attrs: { error: reasonOf(error) } }),
  })

/** Removes all of them now; resolves to their number. */
export async function sweepAll(db: Db, ...remove: readonly RemoveSlice[]): Promise<number> {
  let total = 0
  for (const slice of remove) {
    for (let removed = SLICE; removed >= SLICE; total += removed) removed = await removeSlice(db, slice)
  }
  return total
}

const removeSlice = (db: Db, slice: RemoveSlice): Promise<number> => db.run(SYSTEM, slice(SLICE), { kind: 'slow' })
