import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { parseJson, toJson } from '../src/json.ts'

test('numbers that a double holds are numbers, integers beyond it bigints, all others the text they were', () => {
  const cases: [string, unknown][] = [
    ['9007199254740991', 9007199254740991],
    ['9007199254740992', 9007199254740992n],
    ['-9007199254740993', -9007199254740993n],
    ['1.50', 1.5],
    ['0.1', 0.1],
    ['0.10000000000000000', 0.1],
    ['0.1000000000000000055', '0.1000000000000000055'],
    ['123456789012345.678901', '123456789012345.678901'],
    ['1e400', '1e400'],
    ['1.7976931348623157e+308', Number.MAX_VALUE],
    ['5e-324', 5e-324],
    ['-0', -0],
    ['"9007199254740993"', '9007199254740993'],
    ['"a \\" 9007199254740993 \\\\"', 'a " 9007199254740993 \\'],
  ]
  for (const [text, value] of cases) {
    assert.deepEqual(parseJson(`[{"a":${text}}]`), [{ a: value }], text)
  }
  assert.equal(parseJson('9007199254740993', 'text'), '9007199254740993')
})

test('a text may be as long as an answer, beside a number that a double does not hold', () => {
  for (const part of ['x', '\\n', 'é"1']) {
    const text = part.repeat(12_000_000 / part.length)
    assert.ok(
      isDeepStrictEqual(parseJson(`{"a":${JSON.stringify(text)},"b":9007199254740993}`), {
        a: text,
        b: 9007199254740993n,
      }),
    )
  }
})

test('whatever goes out comes back', () => {
  const scalar = fc.oneof(
    fc.string(),
    fc.boolean(),
    fc.constant(null),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => (Object.is(value, -0) ? 0 : value)),
    fc.bigInt().filter((value) => !Number.isSafeInteger(Number(value))),
  )
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      scalar,
      fc.array(tie('value')),
      fc.dictionary(
        fc.string().filter((name) => name !== '__proto__'),
        tie('value'),
        { noNullPrototype: true },
      ),
    ),
  }))
  // An integer above 2^53 in a double is an integer that a double does not hold, so it comes back as what it is.
  const isDouble = (part: unknown): boolean => Number.isInteger(part) && !Number.isSafeInteger(part)
  fc.assert(
    fc.property(value, (given) => {
      let hasLarge = false
      JSON.stringify(given, (_, part) => {
        hasLarge ||= isDouble(part)
        return typeof part === 'bigint' ? null : part
      })
      fc.pre(!hasLarge)
      assert.deepEqual(parseJson(toJson(given)), given)
    }),
  )
})

test('what JSON has no number for is the text that PostgreSQL reads', () => {
  assert.equal(
    toJson({ a: Number.NaN, b: Number.NEGATIVE_INFINITY, c: 12345678901234567890n }),
    '{"a":"NaN","b":"-Infinity","c":12345678901234567890}',
  )
})
