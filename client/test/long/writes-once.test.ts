import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type SpawnedServer, spawnServer, startServer, type TestServer } from '../../../test/kit/kit.ts'
import { createClient } from '../../src/main.ts'
import type { Database } from '../schema.ts'
import { SCHEMA } from '../schema.ts'
import { startCuttingProxy } from './cutting.ts'

const ROWS = 5_000
const AT_ONCE = 20

/** Creates rows 0 to 4,999, each once, however often it has to be sent. */
async function createAll(url: string, onRow: (count: number) => void = () => {}): Promise<void> {
  const notes = createClient<Database>(url, { retry: 100, timeout: 120_000 }).from('notes')
  let next = 0
  const work = async (): Promise<void> => {
    for (let i = next++; i < ROWS; i = next++) {
      const made = await notes.create({ title: `row ${i}`, views: i })
      assert.equal(made.views, i)
      onRow(i)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
}

async function requireEachOnce(api: TestServer): Promise<void> {
  const [counted] = await api.sql('select count(*) as rows, count(distinct views) as views from notes')
  assert.deepEqual(counted, { rows: String(ROWS), views: String(ROWS) })
}

test('5,000 creates through a proxy that cuts connections at random moments: 5,000 rows', {
  timeout: 600_000,
}, async () => {
  const api = await startServer()
  await api.call('POST /api/admin/sql', { as: 'admin', json: { query: SCHEMA } })
  const proxy = await startCuttingProxy(Number(new URL(api.url).port), 50)
  await createAll(proxy.url)
  await requireEachOnce(api)
  assert.ok(proxy.cuts() > 200, `${proxy.cuts()} cuts`)
})

test('5,000 creates while the server is killed: 5,000 rows', { timeout: 600_000 }, async () => {
  const keeper = await startServer()
  await keeper.call('POST /api/admin/sql', { as: 'admin', json: { query: SCHEMA } })
  let server: SpawnedServer = await spawnServer({ on: keeper })
  const proxy = await startCuttingProxy(Number(new URL(server.url).port), 5)
  let kills = 0
  let replacing = Promise.resolve()
  const onRow = (i: number): void => {
    if (i % 1_000 !== 500) return
    replacing = replacing.then(async () => {
      kills++
      await server.kill('SIGKILL')
      server = await spawnServer({ on: keeper })
      proxy.port = Number(new URL(server.url).port)
    })
  }
  await createAll(proxy.url, onRow)
  await replacing
  await requireEachOnce(keeper)
  assert.equal(kills, 5)
})
