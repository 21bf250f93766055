import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import pg from 'pg'
import { clusterUrl, stopClusters } from '../kit/cluster.ts'
import { noPgbouncer, startPgbouncer } from '../kit/pgbouncer.ts'

after(stopClusters)

test('behind the pooler one client meets several sessions', { skip: noPgbouncer ?? false }, async () => {
  const pooler = await startPgbouncer(await clusterUrl('embedded'))
  const [one, two] = [1, 2].map(() => new pg.Client({ connectionString: pooler.url }))
  assert.ok(one && two)
  await Promise.all([one.connect(), two.connect()])
  const session = async (client: pg.Client) => (await client.query('select pg_backend_pid() as pid')).rows[0].pid
  await two.query('begin')
  const first = await session(one)
  await one.query('begin')
  await two.query('commit')
  await one.query('commit')
  assert.notEqual(await session(one), first)
  await Promise.all([one.end(), two.end()])
  await pooler.stop()
})
