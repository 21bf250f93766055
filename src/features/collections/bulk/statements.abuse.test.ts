import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { eventually, startServer } from '../../../../test/kit/kit.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')
const heapMegabytes = (): number => {
  collectGarbage()
  return process.memoryUsage().heapUsed / 2 ** 20
}

const COLUMNS = Array.from({ length: 100 }, (_, i) => `column_with_a_rather_long_name_${i}`)
const ROWS = 400

/** Every row has other columns, and one name that the table does not know. */
const lines = Array.from({ length: ROWS }, (_, row) => {
  const named = COLUMNS.filter((_, i) => i !== row % 100 && i !== (row * 7 + 1 + Math.floor(row / 100)) % 100)
  return JSON.stringify({
    id: row,
    [`unknown_${row}_${'x'.repeat(20_000)}`]: 1,
    ...Object.fromEntries(named.map((name) => [name, 1])),
  })
})

test('an import whose rows all have other columns keeps no statement for each of them', async () => {
  const api = await startServer()
  // The last row waits for a lock, so that the heap can be looked at when all others are done.
  await api.sql(`
    create table wide (id int primary key, ${COLUMNS.map((name) => `${name} int`).join()});
    create function hold() returns trigger language plpgsql as
      'begin if new.id = ${ROWS - 1} then perform pg_advisory_xact_lock(9); end if; return new; end';
    create trigger hold before insert on wide for each row execute function hold();
    select pg_advisory_lock(9)`)
  const headers = { 'content-type': 'application/x-ndjson' }
  const body = lines.join('\n')
  const before = heapMegabytes()
  const importing = api.call('POST /api/collections/wide/import', { body, headers })
  await eventually(async () => {
    const waiting = await api.sql(`select from pg_locks where locktype = 'advisory' and objid = 9 and not granted`)
    assert.equal(waiting.length, 1)
  })
  const grown = heapMegabytes() - before
  await api.sql('select pg_advisory_unlock(9)')
  const { status, body: counts } = await importing
  assert.deepEqual([status, counts.created], [200, ROWS])
  assert.ok(grown < 12, `the heap grew by ${grown.toFixed(1)} MB`)
})
