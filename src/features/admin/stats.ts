import { PerformanceObserver } from 'node:perf_hooks'
import type { Peers } from '../../core/peers.ts'
import { json, type Route, route } from '../../http/route.ts'
import * as answers from './answers.ts'

type Deps = {
  version: string
  poolStats: () => { total: number; idle: number; inUse: number; max: number; open: number }
  /** Connections to PostgreSQL at most, but for what opens some for a while. */
  mostConnections: number
  /** Figures of the features. */
  extraStats: () => Readonly<Record<string, unknown>>
  askAllWorkers: Peers
}

type Stats = Readonly<Record<string, unknown>>

/** Figures of the server. The names are fixed by the API, also where Node uses other terms. */
export function createStats({ version, poolStats, mostConnections, extraStats, askAllWorkers }: Deps): {
  routes: Route[]
} {
  const startedAt = performance.now()
  let collections = 0
  new PerformanceObserver((entries) => {
    collections += entries.getEntries().length
  }).observe({ entryTypes: ['gc'] })
  const own = (): Stats => {
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
      db_connections: pool.open,
      db_connections_max: mostConnections,
      ...extraStats(),
    }
  }
  const statsOfAll = askAllWorkers('stats', own)
  return {
    routes: [
      route('GET /api/admin/stats', {
        summary: 'How the server is doing; figures of its processes are added up',
        leastRole: 'viewer',
        auth: 'admin',
        answers: { 200: answers.stats },
        handle: async () => json(200, (await statsOfAll()).reduce(addStats)),
      }),
    ],
  }
}

/** Figures of the whole service, which are not summed over processes. */
const SERVICE_WIDE = new Set(['uptime_seconds', 'webhook_queue'])

const addStats = (a: Stats, b: Stats): Stats =>
  Object.fromEntries(
    Object.entries(a).map(([name, value]) => {
      const other = b[name]
      const isAdded = typeof value === 'number' && typeof other === 'number' && !SERVICE_WIDE.has(name)
      return [name, isAdded ? value + other : value]
    }),
  )
