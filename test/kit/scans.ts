import assert from 'node:assert/strict'
import { eventually } from './eventually.ts'
import type { TestServer } from './kit.ts'

/**
 * What `work` answers, once PostgreSQL has counted a use of the index. Connections report their counts with a delay, when
 * they have something to do again.
 */
export async function scansDuring<T>(api: Pick<TestServer, 'sql'>, index: string, work: () => Promise<T>): Promise<T> {
  const scans = async (): Promise<number> => {
    const [row] = await api.sql('select idx_scan from pg_stat_user_indexes where indexrelname = $1', [index])
    return Number(row?.idx_scan ?? 0)
  }
  const before = await scans()
  return eventually(async () => {
    const done = await work()
    assert.ok((await scans()) > before, `${index} was not used`)
    return done
  })
}
