import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import pg from 'pg'
import { clusterUrl, stopClusters } from './cluster.ts'
import { startProxy } from './proxy.ts'

const proxy = await startProxy(await clusterUrl('embedded'))
after(async () => {
  await proxy.close()
  await stopClusters()
})

async function open(connectionTimeoutMillis = 60_000): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: proxy.url, connectionTimeoutMillis })
  client.on('error', () => {})
  await client.connect()
  return client
}
const one = async (client: pg.Client) => (await client.query('select 1 as one')).rows

test('the proxy passes everything, refuses, resets and swallows, and is well again', async () => {
  const client = await open()
  assert.deepEqual(await one(client), [{ one: 1 }])
  assert.equal(proxy.connections, 1)

  await proxy.set('refuse')
  await assert.rejects(one(client))
  await assert.rejects(open(), { code: 'ECONNREFUSED' })

  await proxy.set('reset')
  await assert.rejects(open(), { code: 'ECONNRESET' })

  await proxy.set('blackhole')
  await assert.rejects(open(300), /timeout/)

  await proxy.set('pass')
  const again = await open()
  assert.deepEqual(await one(again), [{ one: 1 }])
  await again.end()
})

test('bytes that a black hole swallowed arrive when it ends, late ones when their time has come', async () => {
  const client = await open()
  await proxy.set('blackhole')
  const answer = one(client)
  const before = performance.now()
  await proxy.set({ delayMs: 60 })
  assert.deepEqual(await answer, [{ one: 1 }])
  assert.ok(performance.now() - before >= 59) // timers count whole milliseconds
  await proxy.set('pass')
  await client.end()
})

test('a connection is cut in the middle of an answer', async () => {
  const client = await open()
  await proxy.set({ cutAfterBytes: 100_000 })
  await assert.rejects(client.query(`select repeat('x', 1000) from generate_series(1, 1000)`))
  await proxy.set('pass')
  const other = await open()
  const lost = new Promise((resolve) => other.once('end', resolve))
  proxy.cut()
  await lost
  assert.deepEqual(await one(await open()), [{ one: 1 }])
})
