import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DryRun } from '../../db/history/dry-run.ts'
import type { Schema } from '../../db/schema/snapshot.ts'
import { differenceOf } from './difference.ts'

const NOTES = 16_400
const schema = { tables: new Map() } as unknown as Schema

/** The text of a difference that creates one row, in a transaction that began at `begun` and took 100 ms. */
function created(begun: number, stamped: string): string {
  const run = {
    logged: [{ oid: NOTES, action: 'create', key: '1', old: null, new: JSON.stringify({ id: 1, stamped }) }],
    told: '"changes":[]',
    isCut: false,
  } as unknown as DryRun
  const columns = { [NOTES]: { id: 'made', stamped: 'made' } } as const
  const about = { begun, now: begun + 100, locked: [], columns, defaults: {} }
  return differenceOf(run, about, [[], []], undefined, schema, { role: 'none' } as never).text
}

const AT = Date.parse('2026-11-18T05:00:00.700Z')

test('a moment of the transaction itself is the same difference in a later one', () => {
  for (const [first, second] of [
    ['2026-11-18T05:00:00.700123+00:00', '2026-11-18T05:00:09.750001+00:00'],
    ['2026-11-18T05:00:00.7+00:00', '2026-11-18T05:00:09.701+00:00'],
    ['2026-11-18T05:00:01+00:00', '2026-11-18T05:00:10+00:00'], // rounded to seconds
    ['2026-11-18 05:00:00', '2026-11-18 05:00:09'], // cut to seconds
  ] as const) {
    assert.equal(created(AT, first), created(AT + 9_000, second), `${first} and ${second}`)
  }
})

test('the moment of a restored row is its own, however soon it is restored', () => {
  const stamped = '2026-11-18T05:00:00.123456+00:00'
  assert.equal(created(AT, stamped), created(AT + 9_000, stamped))
})
