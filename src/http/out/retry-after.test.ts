import assert from 'node:assert/strict'
import { test } from 'node:test'
import { retryAfterOf } from './retry-after.ts'

test('Retry-After is seconds or a date, within reason', () => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  assert.equal(retryAfterOf(undefined, now), undefined)
  assert.equal(retryAfterOf('7', now), 7)
  assert.equal(retryAfterOf('Thu, 01 Jan 2026 00:00:30 GMT', now), 30)
  assert.equal(retryAfterOf('Thu, 01 Jan 1970 00:00:30 GMT', now), 0)
  assert.equal(retryAfterOf('99999999', now), 21_600)
  assert.equal(retryAfterOf('soon', now), undefined)
})
