import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { parseKeepingDigits } from './json-digits.ts'

test('numbers that a double does not hold are texts, whatever stands in the texts beside them', () => {
  const cases: [json: string, value: unknown][] = [
    [
      '[9007199254740993,-9007199254740993,12345678901234567890.5]',
      ['9007199254740993', '-9007199254740993', '12345678901234567890.5'],
    ],
    ['[9007199254740991,1.5,0.1234567890123456]', [9007199254740991, 1.5, 0.1234567890123456]],
    [
      String.raw`{"9007199254740993":"9007199254740993 \" 9007199254740993","\\":9007199254740993}`,
      { '9007199254740993': '9007199254740993 " 9007199254740993', '\\': '9007199254740993' },
    ],
  ]
  for (const [json, value] of cases) assert.deepEqual(parseKeepingDigits(json), value, json)
  for (const part of ['x', '\n', '1"']) {
    const text = part.repeat(12_000_000 / part.length)
    assert.ok(
      isDeepStrictEqual(parseKeepingDigits(`[${JSON.stringify(text)},9007199254740993]`), [text, '9007199254740993']),
      part,
    )
  }
})
