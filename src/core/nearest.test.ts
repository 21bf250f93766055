import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nearestName } from './nearest.ts'

test('the nearest name has at most two edits, or a third of the name', () => {
  const known = ['title', 'body', 'created_at', 'organization_id', 'id']
  for (const [given, meant] of [
    ['titel', 'title'],
    ['Title', 'title'],
    ['tile', 'title'],
    ['crated_at', 'created_at'],
    ['organisation_ids', 'organization_id'],
    ['organizationidentity', undefined],
    ['xyz', undefined],
    ['x', undefined],
    ['', undefined],
    ['ix', 'id'],
    ['constructor', undefined],
    ['__proto__', undefined],
  ] as const) {
    assert.equal(nearestName(given, known), meant, given)
  }
})

test('a long name is compared with none, and any other with the first 5,000', () => {
  let read = 0
  function* candidates(): Generator<string> {
    for (;;) yield `${'a'.repeat(62)}${read++ % 10}`
  }
  assert.equal(nearestName('a'.repeat(5_000), candidates()), undefined)
  assert.equal(read, 0)
  nearestName('b'.repeat(63), candidates())
  assert.ok(read <= 5_001, `${read} candidates`)
})
