import type pg from 'pg'
import type { Config } from '../../config/config.ts'
import type { Pool } from '../../db/pool/pool.ts'
import { Primary } from '../../db/pool/primary.ts'
import { openForCommand, withDatabaseUrl } from '../command/database.ts'

const LOCK_ID = 0x53_56_43_40

/**
 * The database of the configuration, prepared as a start does, with a connection of the server's own role: for one `svc adopt`
 * or `svc users import` at a time. `prepare` has a pool before that.
 */
export const exclusively = <P, T>(
  config: Config,
  prepare: (pool: Pool) => Promise<P>,
  work: (client: pg.Client, prepared: P, url: string) => Promise<T>,
): Promise<T> =>
  withDatabaseUrl(config, async (url) => {
    const { pool } = await openForCommand(config, url)
    const prepared = await prepare(pool).finally(() => pool.stop())
    const { client } = await new Primary(url).find('svc')
    try {
      const { rowCount } = await client.query('select from (select pg_try_advisory_lock($1) as free) l where free', [
        LOCK_ID,
      ])
      if (rowCount === 0) throw new Error('another svc adopt or svc users import is at work on this database')
      return await work(client, prepared, url)
    } finally {
      await client.end().catch(() => {})
    }
  })
