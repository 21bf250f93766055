import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { startServer } from '../../../test/kit/kit.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')
const heapMegabytes = (): number => {
  collectGarbage()
  return process.memoryUsage().heapUsed / 2 ** 20
}

const TABLES = 20
const COLUMNS = Array.from({ length: 50 }, (_, i) => `column_${i} int`).join()

test('type systems of documents that each name other tables are kept up to a bound', async () => {
  const api = await startServer()
  for (let i = 0; i < TABLES; i++) await api.sql(`create table t${i} (id int primary key, ${COLUMNS})`)
  /** All tables but two. */
  const ask = async (one: number, other: number) => {
    const named = Array.from({ length: TABLES }, (_, i) => i).filter((i) => i !== one && i !== other)
    const query = `{ ${named.map((i) => `t${i}(limit: 0) { id }`).join(' ')} }`
    const { status, text } = await api.call('POST /api/graphql', { json: { query } })
    assert.equal(status, 200, text)
  }
  await ask(0, 1)
  const before = heapMegabytes()
  for (let n = 2; n < 42; n++) await ask(n % TABLES, (n * 7 + Math.floor(n / TABLES)) % TABLES)
  const grown = heapMegabytes() - before
  assert.ok(grown < 40, `the heap grew by ${grown.toFixed(1)} MB`)
})
