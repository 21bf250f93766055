import type { Config } from '../../config/config.ts'

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
