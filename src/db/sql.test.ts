import assert from 'node:assert/strict'
import { test } from 'node:test'
import { COMMA, join, sql } from './sql.ts'

test('parts are joined side by side, however many', () => {
  assert.deepEqual(join([], COMMA).render(), { text: '', values: [] })
  assert.deepEqual(join([sql`a`, sql`${1}`], COMMA).render(), { text: 'a, $1', values: [1] })
  const { text, values } = join(
    Array.from({ length: 100_000 }, (_, i) => sql`${i}`),
    COMMA,
  ).render()
  assert.equal(values.length, 100_000)
  assert.ok(text.endsWith(', $99999, $100000'))
})
