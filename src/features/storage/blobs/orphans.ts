import { SYSTEM } from '../../../core/identity.ts'
import type { Db } from '../../../db/db.ts'
import { unknownBlobs } from './sql.ts'
import type { Store } from './store.ts'

const SLICE = 500
/** Far longer than the time from an upload's first byte to its row, and than clock differences. */
const MIN_AGE_MS = 3_600_000

/** Removes blobs without a row, which a crash between the two writes leaves. */
export async function removeOrphans(deps: { db: Db; store: Store; uploadMs: number }): Promise<number> {
  const { db, store, uploadMs } = deps
  const before = Date.now() - Math.max(MIN_AGE_MS, 2 * uploadMs)
  let removed = 0
  let slice: string[] = []
  const removeUnknown = async (): Promise<void> => {
    const orphans = await db.rows<{ id: string }>(SYSTEM, unknownBlobs(slice))
    slice = []
    for (const { id } of orphans) await store.remove(id)
    removed += orphans.length
  }
  for await (const { id, modifiedAt } of store.list()) {
    if (modifiedAt < before) slice.push(id)
    if (slice.length === SLICE) await removeUnknown()
  }
  if (slice.length > 0) await removeUnknown()
  return removed
}
