import type { Config } from '../../config/config.ts'

/** Two connections of its pool, and the one that listens. */
const LEAST_PER_WORKER = 3
/** `superuser_reserved_connections`, which callers' logins cannot have. */
const RESERVED = 3

/** Refuses more workers than the database has connections for, before any of them starts. */
export function requireConnections(workers: number, maxConnections: number): void {
  const most = Math.floor((maxConnections - RESERVED) / LEAST_PER_WORKER)
  if (workers <= most) return
  throw new Error(
    `server.workers is ${workers}, but the embedded PostgreSQL has ${maxConnections} connections, enough for ${most} workers`,
  )
}

/** Divides the limits of the whole server among its workers. */
export function limitsOf(config: Config, workers: number): Config {
  const share = (whole: number, least: number): number => Math.max(least, Math.floor(whole / workers))
  return {
    ...config,
    database: {
      ...config.database,
      max_conns: share(config.database.max_conns, 2),
      min_conns: share(config.database.min_conns, 1),
    },
    auth: { ...config.auth, hash_concurrency: share(config.auth.hash_concurrency, 1) },
    jobs: { ...config.jobs, worker_concurrency: share(config.jobs.worker_concurrency, 1) },
  }
}
