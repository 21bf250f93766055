import { LRUCache } from 'lru-cache'
import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { touchKeys } from './sql.ts'

const WRITE_AFTER_MS = 250
const AT_MOST_EVERY_MS = 60_000
/** Of ids that are remembered; the database compares the time too. */
const MAX_BYTES = 2 * 1024 * 1024

/** Collects which keys were used and writes `last_used_at` in batches, outside the requests. */
export function createLastUsed(db: Db) {
  const waiting = new Set<string>()
  const written = new LRUCache<string, true>({ maxSize: MAX_BYTES, sizeCalculation: () => 200, ttl: AT_MOST_EVERY_MS })
  let timer: NodeJS.Timeout | undefined

  async function write(): Promise<void> {
    timer = undefined
    const ids = [...waiting]
    waiting.clear()
    for (const id of ids) written.set(id, true)
    // Informational only: after a failed write the next use writes it again.
    await db.run(SYSTEM, touchKeys(ids)).catch(() => {
      for (const id of ids) written.delete(id)
    })
  }

  return {
    mark(keyId: string): void {
      if (waiting.has(keyId) || written.has(keyId)) return
      waiting.add(keyId)
      timer ??= setTimeout(() => void write(), WRITE_AFTER_MS).unref()
    },
    async stop(): Promise<void> {
      clearTimeout(timer)
      if (waiting.size > 0) await write()
    },
  }
}
