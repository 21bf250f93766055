import { after } from 'node:test'
import type { Observe } from '../../src/core/observe.ts'
import type { Pool } from '../../src/db/pool/pool.ts'
import { createDatabase, stopClusters } from './cluster.ts'
import { poolOn } from './pool.ts'

const cleanups: (() => unknown)[] = []

// Here, and not in testDatabase: a hook of the test that calls it would stop the cluster under the next one.
after(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  await stopClusters()
})

/** A database without a server, for tests of parts that need no HTTP. Use either this or the kit in one file. */
export async function testDatabase(observe: Observe = () => {}): Promise<{
  url: string
  /** One pool per process the test plays. */
  open(): Promise<Pool>
  /** Runs after the file, latest first, while the pools are still open. */
  atEnd(cleanup: () => unknown): void
}> {
  const { url, drop } = await createDatabase('embedded')
  cleanups.push(drop)
  return {
    url,
    async open() {
      const pool = await poolOn(url, { maxConns: 6, observe })
      cleanups.push(() => pool.stop())
      return pool
    },
    atEnd: (cleanup) => void cleanups.push(cleanup),
  }
}
