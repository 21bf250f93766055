import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testDatabase } from '../../../test/kit/database.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { poolOn } from '../../../test/kit/pool.ts'
import { startTlsProxy } from '../../../test/kit/tls-proxy.ts'
import { SYSTEM } from '../../core/identity.ts'
import { sql } from '../sql.ts'

test('where a connection has TLS, its cancels have it too', async () => {
  const database = await testDatabase()
  const proxy = await startTlsProxy(database.url)
  database.atEnd(() => proxy.close())
  const pool = await poolOn(proxy.url)
  database.atEnd(() => pool.stop())
  const leaving = new AbortController()
  const sleeping = pool.run(SYSTEM, sql`select pg_sleep(600)`, { kind: 'slow', signal: leaving.signal })
  sleeping.catch(() => {})
  const running = sql`select from pg_stat_activity where query like 'select pg_sleep(600)%' and state = 'active'`
  await eventually(async () => assert.equal(await pool.run(SYSTEM, running), 1))
  leaving.abort()
  await eventually(async () => assert.equal(await pool.run(SYSTEM, running), 0))
  await assert.rejects(sleeping)
  assert.deepEqual([...new Set(proxy.begun)].sort(), ['tls cancel', 'tls login'])
})
