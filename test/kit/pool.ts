import { openPool, type Pool, type PoolOptions } from '../../src/db/pool/pool.ts'

/** As a server on a small database has it; patient, because tests share their machine. */
export const poolOptions: Omit<PoolOptions, 'url'> = {
  maxConns: 4,
  minConns: 1,
  acquireTimeoutMs: 60_000,
  preparedStatements: true,
  schemas: ['public'],
  statementTimeoutMs: 60_000,
  observe: () => {},
}

export const poolOn = (url: string, options: Partial<PoolOptions> = {}): Promise<Pool> =>
  openPool({ ...poolOptions, url, ...options })
