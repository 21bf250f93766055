import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cut } from './attempt.ts'

test('text is cut by bytes, never within a character, and without NUL', () => {
  assert.equal(cut('hello', 10), 'hello')
  assert.equal(cut('hello', 2), 'he')
  assert.equal(cut('aé', 2), 'a')
  assert.equal(cut('a😀b', 4), 'a')
  assert.equal(cut('a😀b', 5), 'a😀')
  assert.equal(cut('a\0b', 10), 'a\ufffdb')
})
