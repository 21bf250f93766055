import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { LiveRow } from '../../../db/rows/live-query.ts'
import { diffOf, type HeldRow } from './held.ts'

/** Rows of a table by their keys: what they hold, and what they are sorted by. */
type Table = ReadonlyMap<number, { value: number; rank: number }>

const table: fc.Arbitrary<Table> = fc
  .array(fc.tuple(fc.nat(12), fc.record({ value: fc.nat(3), rank: fc.nat(4) })), { maxLength: 12 })
  .map((rows) => new Map(rows))

function pageOf(rows: Table, perPage: number, known: readonly HeldRow[]): LiveRow[] {
  const digests = new Set(known.map(({ d }) => d))
  return [...rows]
    .sort(([a, one], [b, other]) => one.rank - other.rank || a - b)
    .slice(0, perPage)
    .map(([key, { value, rank }], n) => {
      const d = JSON.stringify([key, value, rank])
      return { n, k: String(key), p: String(key), d, r: digests.has(d) ? null : JSON.stringify({ key, value }) }
    })
}

test('changes in their order make the old page the new one, each with the index it then has', () => {
  fc.assert(
    fc.property(table, table, fc.integer({ min: 1, max: 10 }), (before, after, perPage) => {
      const old = pageOf(before, perPage, []).map(({ k, p, d, r }) => ({ k: k ?? '', p, d: d ?? '', r }))
      const now = pageOf(after, perPage, old)
      const changes = diffOf(old, now)
      assert.ok(changes)
      let held = old.map(({ k, r }) => ({ k, r }))
      for (const change of changes) {
        held = held.filter(({ k }) => k !== change.k)
        if ('at' in change) held.splice(change.at, 0, { k: change.k, r: String(change.r) })
      }
      const wanted = pageOf(after, perPage, []).map(({ k, r }) => ({ k, r }))
      assert.deepEqual(held, wanted)
      for (const change of changes) if ('at' in change) assert.equal(wanted[change.at]?.k, change.k)
    }),
    { numRuns: 2_000 },
  )
})
