import type { Observe } from '../../src/core/observe.ts'
import type { Pool } from '../../src/db/pool/pool.ts'
import { atEnd, begunAtEnd } from './at-end.ts'
import { createDatabase } from './cluster.ts'
import { poolOn } from './pool.ts'

/** A database without a server, for tests of parts that need no HTTP. */
export async function testDatabase(observe: Observe = () => {}): Promise<{
  url: string
  /** One pool per process the test plays. */
  open(): Promise<Pool>
  /** Runs after the file, latest first, while the pools are still open. */
  atEnd(cleanup: () => unknown): void
}> {
  const { url, drop } = await createDatabase('embedded')
  begunAtEnd(drop)
  return {
    url,
    async open() {
      const pool = await poolOn(url, { maxConns: 6, observe })
      atEnd(() => pool.stop())
      return pool
    },
    atEnd,
  }
}
