import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cut, secondsOf } from './attempt.ts'

test('text is cut by bytes, never within a character, and without NUL', () => {
  assert.equal(cut('hello', 10), 'hello')
  assert.equal(cut('hello', 2), 'he')
  assert.equal(cut('aé', 2), 'a')
  assert.equal(cut('a😀b', 4), 'a')
  assert.equal(cut('a😀b', 5), 'a😀')
  assert.equal(cut('a\0b', 10), 'a\ufffdb')
})

test('Retry-After is seconds or a date, within reason', () => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  assert.equal(secondsOf(undefined, now), undefined)
  assert.equal(secondsOf('7', now), 7)
  assert.equal(secondsOf('Thu, 01 Jan 2026 00:00:30 GMT', now), 30)
  assert.equal(secondsOf('Thu, 01 Jan 1970 00:00:30 GMT', now), 0)
  assert.equal(secondsOf('99999999', now), 21_600)
  assert.equal(secondsOf('soon', now), undefined)
})
