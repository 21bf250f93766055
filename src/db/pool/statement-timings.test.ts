import assert from 'node:assert/strict'
import { test } from 'node:test'
import { budgets } from '../../core/budgets.ts'
import { StatementTimings } from './statement-timings.ts'
import { MAX_KNOWN_SLOW } from './tuning.ts'

test('nothing is known of a text until it was answered in time, or was too long', () => {
  const timings = new StatementTimings()
  assert.deepEqual([timings.isKnownFast('a'), timings.isKnownSlow('a', 0)], [false, false])
  timings.inTime('a')
  timings.tooLong('b', 0)
  assert.deepEqual([timings.isKnownFast('a'), timings.isKnownSlow('a', 0)], [true, false])
  assert.deepEqual([timings.isKnownFast('b'), timings.isKnownSlow('b', 0)], [false, true])
})

test('what was too long is no longer fast, and slow for ten seconds', () => {
  const timings = new StatementTimings()
  timings.inTime('a')
  timings.tooLong('a', 1_000)
  assert.equal(timings.isKnownFast('a'), false)
  assert.deepEqual([timings.isKnownSlow('a', 10_999), timings.isKnownSlow('a', 11_000)], [true, false])
})

test('what is kept is bounded: texts in bytes, slow ones in number, and long texts not at all', () => {
  const timings = new StatementTimings()
  timings.inTime('x'.repeat(budgets.preparedStatementBytes + 1))
  assert.equal(timings.isKnownFast('x'.repeat(budgets.preparedStatementBytes + 1)), false)
  const text = (i: number) => `${i}`.padEnd(budgets.preparedStatementBytes, 'x')
  for (let i = 0; i < 1_000; i++) timings.inTime(text(i))
  const known = Array.from({ length: 1_000 }, (_, i) => i).filter((i) => timings.isKnownFast(text(i)))
  assert.ok(known.length * budgets.preparedStatementBytes <= budgets.statementNamesBytes && known.includes(999))
  for (let i = 0; i <= MAX_KNOWN_SLOW; i++) timings.tooLong(`${i}`, 0)
  assert.deepEqual([timings.isKnownSlow('0', 1), timings.isKnownSlow(`${MAX_KNOWN_SLOW}`, 1)], [false, true])
  const long = (i: number) => `${i}`.padEnd(budgets.statementNamesBytes / 4, 'x')
  for (let i = 0; i < 12; i++) timings.tooLong(long(i), 0)
  const slow = Array.from({ length: 12 }, (_, i) => i).filter((i) => timings.isKnownSlow(long(i), 1))
  assert.ok(slow.length <= 4 && slow.includes(11), `${slow.length} long texts are kept`)
})
