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

test('a long name or many candidates cost little', () => {
  const many = Array.from({ length: 100_000 }, (_, i) => `${'a'.repeat(62)}${i % 10}`)
  const startedAt = performance.now()
  assert.equal(nearestName('a'.repeat(5_000), many), undefined)
  nearestName('b'.repeat(63), many)
  assert.ok(performance.now() - startedAt < 2_000)
})
