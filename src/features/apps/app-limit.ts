import { LRUCache } from 'lru-cache'
import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { limitOfApp } from './sql.ts'

export type AppLimit = { /** Requests … */ max: number /** … per window. */; seconds: number }

/** A changed limit holds on every process within this time. */
const FRESH_MS = 1000

export function createAppLimits(db: Db) {
  const cache = new LRUCache<string, { limit: Promise<AppLimit | null> }>({
    // A size, because `max` would take the room for all of them at once.
    maxSize: 10_000,
    sizeCalculation: () => 1,
    ttl: FRESH_MS,
  })

  return {
    /** Null: the app has no limit. Concurrent requests share one lookup. */
    appLimit(appId: string): Promise<AppLimit | null> {
      const known = cache.get(appId)
      if (known) return known.limit
      const entry = { limit: db.rows<AppLimit>(SYSTEM, limitOfApp(appId)).then(([limit]) => limit ?? null) }
      entry.limit.catch(() => {
        if (cache.peek(appId) === entry) cache.delete(appId)
      })
      cache.set(appId, entry)
      return entry.limit
    },
    forget: (appId: string): void => void cache.delete(appId),
  }
}
