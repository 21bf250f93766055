import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { memberTextsOfEach } from './json-slices.ts'

test('slices are the values, as they were written', () => {
  const twice = '{"a": 1e400 , "b\\u0063":"}", "a":9007199254740993}'
  const list = `[ 1 , ${twice},{"b":"]\\","} ,[], {"c":[2,3], "b" : {} } ,null ]`
  const slices = [
    [undefined, '"}"', undefined, undefined, undefined, undefined],
    [undefined, '9007199254740993', undefined, undefined, undefined, undefined],
    [undefined, undefined, '"]\\","', undefined, '{}', undefined],
  ]
  const names = ['bc', 'a', 'b']
  assert.deepEqual(memberTextsOfEach(` { "list" : ${list} } `, 'list', names), slices)
  assert.deepEqual(
    memberTextsOfEach(`{"list":[{}],"x":"[","li\\u0073t":${list},"y":{"list":[]}}`, 'list', names),
    slices,
  )
  for (const none of ['{"list":[]}', '{"list":{"a":[1]}}', '{}', '{"other":[{"a":1}]}']) {
    assert.deepEqual(memberTextsOfEach(none, 'list', names), [[], [], []], none)
  }
})

test('a name is compared as what it means, also when it looks like the escaped spelling of another', () => {
  const one = '\\'
  const two = '\\\\'
  const text = JSON.stringify({ list: [{ [two]: 2, [one]: 1 }, { [one]: 1 }] })
  assert.deepEqual(memberTextsOfEach(text, 'list', [two, one]), [
    ['2', undefined],
    ['1', '1'],
  ])
})

test('slicing and parsing agree for any JSON', () => {
  const spaced = fc.constantFrom(0, 1, 2, '\t')
  const escaped = fc.string({ unit: fc.constantFrom('\\', '"', 'u', '0', '2', 'n', '\n') })
  const members = fc.dictionary(fc.oneof(fc.string(), escaped), fc.jsonValue())
  const elements = fc.array(fc.oneof(members, fc.jsonValue()))
  fc.assert(
    fc.property(elements, fc.jsonValue(), spaced, (list, before, indent) => {
      const text = JSON.stringify({ before, list, after: before }, null, indent)
      const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)
      const parsed = JSON.parse(text).list as Record<string, unknown>[]
      const names = [...new Set(parsed.flatMap((element) => (isObject(element) ? Object.keys(element) : [])))]
      const slices = memberTextsOfEach(text, 'list', names)
      for (const each of slices) assert.equal(each.length, parsed.length)
      for (const [i, element] of parsed.entries()) {
        for (const [n, name] of names.entries()) {
          const slice = slices[n]?.[i]
          assert.deepEqual(
            slice && JSON.parse(slice),
            isObject(element) && Object.hasOwn(element, name) ? element[name] : undefined,
          )
        }
      }
    }),
  )
})
