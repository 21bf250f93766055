import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testDatabase } from '../../../test/kit/database.ts'
import { ANONYMOUS, SYSTEM } from '../../core/identity.ts'
import { type Sql, sql } from '../sql.ts'
import { StatementCache, StatementNames } from './statements.ts'

const database = await testDatabase()
const pool = await database.open()
const raw = (text: string): Sql => sql(Object.assign([text], { raw: [text] }) as unknown as TemplateStringsArray)

test('statements that a failing flight was to close or parse do not collide afterwards', async () => {
  for (let round = 0; round < 3; round++) {
    const shapes = Array.from({ length: 600 }, (_, i) => raw(`select ${round} as shape, '${'x'.repeat(900)}${i}'`))
    const failing = [...shapes.slice(0, 300), sql`select 1/0`, ...shapes.slice(300)] as unknown as [Sql]
    await assert.rejects(pool.fly(ANONYMOUS, failing), /division|invalid/)
    // Twice: the second time finds that the first ones made room for the last.
    for (const shape of [...shapes, ...shapes]) await pool.fly(ANONYMOUS, shape)
  }
})

test('what a connection keeps prepared is bounded in bytes, whatever is asked', async () => {
  for (let i = 0; i < 400; i++) {
    assert.equal(await pool.fly(SYSTEM, raw(`select '${i}' /* ${'filter '.repeat(1500)} */`)), String(i))
  }
  const [kept] = await pool.rows<{ bytes: number }>(
    SYSTEM,
    sql`select coalesce(sum(length(statement)), 0)::bigint as bytes from pg_prepared_statements`,
  )
  assert.ok((kept?.bytes ?? Number.NaN) < 600 * 1024, `${kept?.bytes} bytes are prepared`)
})

test('the oldest make room, in front of the next flight, and a statement that is too long is not kept', () => {
  const cache = new StatementCache(new StatementNames(), 5_000)
  const names = Array.from({ length: 4 }, (_, i) => {
    assert.deepEqual(cache.begin(), [])
    return cache.prepare(`select ${i} ${'x'.repeat(300)}`, 'r').name
  })
  assert.deepEqual(cache.begin(), [names[0]])
  assert.deepEqual(cache.prepare(`select 3 ${'x'.repeat(300)}`, 'r'), { name: names[3], isNew: false })
  assert.equal(cache.prepare('x'.repeat(20_000), 'r').name, '')
})
