import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { touchKeys } from './sql.ts'

const WRITE_AFTER_MS = 250
const AT_MOST_EVERY_MS = 60_000

/** Collects which keys were used and writes `last_used_at` in batches, outside the requests. */
export function createLastUsed(db: Db) {
  const waiting = new Set<string>()
  const writtenAt = new Map<string, number>()
  let timer: NodeJS.Timeout | undefined

  async function write(): Promise<void> {
    timer = undefined
    const ids = [...waiting]
    waiting.clear()
    const now = performance.now()
    for (const [id, at] of writtenAt) if (now - at > AT_MOST_EVERY_MS) writtenAt.delete(id)
    for (const id of ids) writtenAt.set(id, now)
    // Informational only: after a failed write the next use writes it again.
    await db.run(SYSTEM, touchKeys(ids)).catch(() => {
      for (const id of ids) writtenAt.delete(id)
    })
  }

  return {
    mark(keyId: string): void {
      const at = writtenAt.get(keyId)
      if (waiting.has(keyId) || (at !== undefined && performance.now() - at < AT_MOST_EVERY_MS)) return
      waiting.add(keyId)
      timer ??= setTimeout(() => void write(), WRITE_AFTER_MS).unref()
    },
    async stop(): Promise<void> {
      clearTimeout(timer)
      if (waiting.size > 0) await write()
    },
  }
}
