import { PerformanceObserver } from 'node:perf_hooks'

export type StatsDeps = {
  version: string
  poolStats: () => { total: number; idle: number; inUse: number; max: number }
  /** Figures of the features. */
  extraStats: () => Readonly<Record<string, unknown>>
}

/** How this process is doing; the names are those of the interface, also where Node has other words. */
export function createStats({ version, poolStats, extraStats }: StatsDeps): () => Record<string, unknown> {
  const startedAt = performance.now()
  let collections = 0
  new PerformanceObserver((entries) => {
    collections += entries.getEntries().length
  }).observe({ entryTypes: ['gc'] })
  return () => {
    const pool = poolStats()
    const memory = process.memoryUsage()
    return {
      version,
      uptime_seconds: Math.floor((performance.now() - startedAt) / 1000),
      node_version: process.version,
      goroutines: process.getActiveResourcesInfo().length,
      memory_alloc: memory.heapUsed,
      memory_sys: memory.rss,
      gc_cycles: collections,
      db_pool_total: pool.total,
      db_pool_idle: pool.idle,
      db_pool_in_use: pool.inUse,
      db_pool_max: pool.max,
      ...extraStats(),
    }
  }
}
