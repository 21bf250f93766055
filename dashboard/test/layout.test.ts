import assert from 'node:assert/strict'
import { test } from 'node:test'
import { plainLayout } from '../src/pages/schema/plain-layout.ts'

test('a diagram that cannot be ranked stands in columns: no table on another, those that belong together side by side', () => {
  const boxes = Array.from({ length: 300 }, (_, index) => ({ width: 220, height: 50 + (index % 7) * 40 }))
  const chain = boxes.slice(1).map((_, index) => ({ from: index + 1, to: index }))
  const places = plainLayout(boxes, [...chain, { from: 5, to: 5 }, { from: 299, to: 0 }])
  const corners = places.map(({ x, y }, index) => ({ x, y, bottom: y + (boxes[index]?.height ?? 0) }))
  for (const [index, one] of corners.entries())
    for (const other of corners.slice(index + 1))
      assert.ok(one.x !== other.x || one.bottom < other.y || other.bottom < one.y)
  const width = Math.max(...corners.map(({ x }) => x)) + 220
  const height = Math.max(...corners.map(({ bottom }) => bottom))
  assert.ok(width > height && width < 3 * height, `${width} × ${height}`)
  const far = chain.filter(({ from, to }) => Math.abs((corners[from]?.x ?? 0) - (corners[to]?.x ?? 0)) > 300)
  assert.ok(far.length < 5, `${far.length} far from each other`)
  assert.deepEqual(plainLayout([], []), [])
})
