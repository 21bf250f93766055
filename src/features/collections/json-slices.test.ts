import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { memberTexts, memberTextsOfEach } from './json-slices.ts'

test('slices are the values, as they were written', () => {
  const twice = '{"a": 1e400 , "b\\u0063":"}", "a":9007199254740993}'
  assert.deepEqual(memberTexts(twice, ['bc', 'a', 'b']), ['"}"', '9007199254740993', undefined])
  assert.deepEqual(memberTexts(' { } ', ['a']), [undefined])
  assert.deepEqual(memberTextsOfEach(' [ 1 , {"a":"]\\","} ,[], {"b":[2,3], "a" : {} } ,null ]', ['a']), [
    [undefined],
    ['"]\\","'],
    [undefined],
    ['{}'],
    [undefined],
  ])
  assert.deepEqual(memberTextsOfEach('[]', ['a']), [])
})

test('slicing and parsing agree for any JSON', () => {
  const spaced = fc.constantFrom(0, 1, 2, '\t')
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), spaced, (values, indent) => {
      const texts = memberTextsOfEach(
        JSON.stringify(
          values.map((a) => ({ x: 0, a })),
          null,
          indent,
        ),
        ['a'],
      )
      assert.deepEqual(
        texts.map(([text]) => JSON.parse(text ?? assert.fail())),
        JSON.parse(JSON.stringify(values)),
      )
    }),
  )
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), spaced, (members, indent) => {
      const text = JSON.stringify(members, null, indent)
      const parsed = JSON.parse(text)
      const names = Object.keys(parsed)
      for (const [i, slice] of memberTexts(text, names).entries()) {
        assert.deepEqual(JSON.parse(slice ?? assert.fail()), parsed[names[i] ?? ''])
      }
    }),
  )
})
