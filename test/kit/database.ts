import { after } from 'node:test'
import type { Observe } from '../../src/core/observe.ts'
import type { Pool } from '../../src/db/wire/pool.ts'
import { createDatabase, stopClusters } from './cluster.ts'
import { poolOn } from './pool.ts'

/** A database without a server, for tests of parts that need no HTTP. Use either this or the kit in one file. */
export async function testDatabase(observe: Observe = () => {}): Promise<{
  url: string
  /** One pool per process the test plays. */
  open(): Promise<Pool>
  /** Runs after the file, latest first, while the pools are still open. */
  atEnd(cleanup: () => unknown): void
}> {
  const { url, drop } = await createDatabase('embedded')
  const pools: Pool[] = []
  const cleanups: (() => unknown)[] = []
  after(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup()
    for (const pool of pools) await pool.stop()
    await drop()
    await stopClusters()
  })
  return {
    url,
    async open() {
      const pool = await poolOn(url, { maxConns: 6, observe })
      pools.push(pool)
      return pool
    },
    atEnd: (cleanup) => void cleanups.push(cleanup),
  }
}
