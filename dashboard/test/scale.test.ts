import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MOST_PX, Scale } from '../src/parts/grid/scale.ts'

test('a scrollbar as long as an element can be reaches every row, and both ends meet', () => {
  const few = new Scale(33 * 1_000, 600)
  assert.deepEqual([few.isScaled, few.height, few.lineAt(500), few.scrollFor(500)], [false, 33_000, 500, 500])
  for (const rows of [500_000, 5_000_000, 1_000_000_000]) {
    const length = rows * 33
    const scale = new Scale(length, 600)
    assert.deepEqual([scale.isScaled, scale.height], [true, MOST_PX])
    assert.equal(scale.lineAt(0), 0)
    assert.ok(Math.abs(scale.lineAt(MOST_PX - 600) - (length - 600)) < 1)
    assert.equal(scale.lineEnd, length - 600)
    for (const row of [0, 1, rows / 2, rows - 30]) {
      const there = scale.scrollFor(row * 33)
      assert.ok(there >= 0 && there <= MOST_PX - 600)
      assert.ok(Math.abs(scale.lineAt(there) - row * 33) < 1)
    }
  }
  assert.deepEqual([new Scale(0, 600).lineEnd, new Scale(0, 600).height], [0, 0])
})
