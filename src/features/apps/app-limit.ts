import { entryCache } from '../../core/entry-cache.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { limitOfApp } from './sql.ts'

export type AppLimit = { /** Requests per window. */ max: number; seconds: number }

/** Every process applies a changed limit within this time. */
const FRESH_MS = 1000

export function createAppLimits(db: Db) {
  const cache = entryCache<{ limit: Promise<AppLimit | null> }>(10_000, { ttl: FRESH_MS })

  return {
    /** Null: the app has no limit. Concurrent requests share one lookup. */
    appLimit(appId: string): Promise<AppLimit | null> {
      const cached = cache.get(appId)
      if (cached) return cached.limit
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
