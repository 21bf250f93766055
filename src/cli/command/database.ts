import { join } from 'node:path'
import type pg from 'pg'
import type { Config } from '../../config/config.ts'
import type { Db, Notifications } from '../../db/db.ts'
import { Primary } from '../../db/pool/primary.ts'
import { openDatabase } from '../../db/setup/database.ts'
import { socketUrl, tcpUrl } from '../../db/setup/embedded/address.ts'
import { startEmbedded } from '../../db/setup/embedded/embedded.ts'
import { holderOf } from '../../db/setup/embedded/lock.ts'
import { runningPostmaster } from '../../db/setup/embedded/postmaster.ts'

/**
 * Runs `work` with the URL of the configured database. A stopped embedded database is started for the duration of
 * `work`.
 */
export async function withDatabaseUrl<T>(config: Config, work: (url: string) => Promise<T>): Promise<T> {
  if (config.database.url !== '') return work(config.database.direct_url)
  const running = holderOf(config.data_dir) && runningPostmaster(join(config.data_dir, 'postgres'))
  if (running) {
    const isSocket = process.platform !== 'win32'
    const dir = running.socketDir.startsWith('/proc/') ? join(config.data_dir, 'run') : running.socketDir
    return work(isSocket ? socketUrl(config.data_dir, dir) : tcpUrl(config.data_dir, running.port))
  }
  const { embedded_bin_dir: binDir } = config.database
  const cluster = await startEmbedded({ dataDir: config.data_dir, binDir, log: () => {} })
  try {
    return await work(cluster.url)
  } finally {
    await cluster.stop()
  }
}

export const withConnection = <T>(config: Config, work: (client: pg.Client) => Promise<T>): Promise<T> =>
  withDatabaseUrl(config, async (url) => {
    const { client } = await new Primary(url).find('svc').catch((error: Error) => {
      throw new Error(`cannot connect to the database: ${error.message}`, { cause: error })
    })
    try {
      return await work(client)
    } finally {
      await client.end().catch(() => {})
    }
  })

/** Prepared as a start does, with few connections and without a word. */
export const openForCommand = (config: Config, url: string): ReturnType<typeof openDatabase> =>
  openDatabase({
    url,
    config: { ...config.database, max_conns: 2, min_conns: 0, replica_urls: [] },
    api: config.api,
    observe: () => {},
    progress: () => {},
  })

/** As `withConnection`, with the server's connection pool. */
export const withDb = <T>(config: Config, work: (db: Db & Notifications) => Promise<T>): Promise<T> =>
  withDatabaseUrl(config, async (url) => {
    const { pool } = await openForCommand(config, url)
    try {
      return await work(pool)
    } finally {
      await pool.stop()
    }
  })
