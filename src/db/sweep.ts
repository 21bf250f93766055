import { reasonOf } from '../core/errors.ts'
import { SYSTEM } from '../core/identity.ts'
import type { WordsBetween } from '../core/observations.ts'
import type { Observe } from '../core/observe.ts'
import type { Db } from './db.ts'
import { Loop } from './loop.ts'
import type { Sql } from './sql.ts'

/** A start has better things to do. */
const FIRST_MS = 10_000
const EVERY_MS = 600_000
/** Between slices of a large backlog, which may take its time. */
const PAUSE_MS = 100
const SLICE = 1000

/** A statement that removes at most so many rows. */
export type RemoveSlice = (limit: number) => Sql

/** What is over does not stay: one slice of each every ten minutes, and soon more of them where there is more. */
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

/** The same at once and to the end; resolves to how many there were. */
export async function sweepAll(db: Db, ...remove: readonly RemoveSlice[]): Promise<number> {
  let total = 0
  for (const slice of remove) {
    for (let removed = SLICE; removed >= SLICE; total += removed) removed = await removeSlice(db, slice)
  }
  return total
}

const removeSlice = (db: Db, slice: RemoveSlice): Promise<number> => db.run(SYSTEM, slice(SLICE), { kind: 'slow' })
