import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Digits, exactJson, parseExact, prettyJson } from '../src/parts/exact.ts'
import { text } from '../src/parts/format.ts'

/** As PostgreSQL writes rows. */
const ROW =
  '{"id":9007199254740993,"n":12.50,"z":0.00,"m":-0,"f":1e-07,"g":1e+22,"i":7,"d":0.1,"t":"1.50","j":{"b": 1.50,  "10": 1, "a":12345678901234567890, "a":1e400},"l":[1,1.0,null,"x"],"e":{},"k":[],"y":true,"u":null,"__proto__":{"x":1.0}}'

test('each value is shown as the database wrote it, inside of JSON too', () => {
  const row = parseExact(ROW) as Record<string, unknown>
  const shown = Object.fromEntries(Object.entries(row).map(([name, value]) => [name, text(value)]))
  assert.deepEqual(Object.entries(shown).slice(0, 9), [
    ['id', '9007199254740993'],
    ['n', '12.50'],
    ['z', '0.00'],
    ['m', '-0'],
    ['f', '1e-07'],
    ['g', '1e+22'],
    ['i', '7'],
    ['d', '0.1'],
    ['t', '1.50'],
  ])
  assert.equal(shown['j'], '{"b": 1.50,  "10": 1, "a":12345678901234567890, "a":1e400}')
  assert.deepEqual([shown['l'], shown['e'], shown['k'], shown['y']], ['[1,1.0,null,"x"]', '{}', '[]', 'true'])
  assert.equal(Object.getPrototypeOf(row), Object.prototype)
  assert.equal(text(Object.getOwnPropertyDescriptor(row, '__proto__')?.value), '{"x":1.0}')
  assert.deepEqual([typeof row['i'], typeof row['d'], row['n'] instanceof Digits], ['number', 'number', true])
})

test('what was read is sent as it was, and several lines of it are the same JSON', () => {
  const { n, j, l } = parseExact(ROW) as Record<string, unknown>
  assert.equal(
    exactJson({ n, own: [j, 1.5, '"~0~"'], l: [...(l as unknown[])] }),
    '{"n":12.50,"own":[{"b": 1.50,  "10": 1, "a":12345678901234567890, "a":1e400},1.5,"\\"~0~\\""],"l":[1,1.0,null,"x"]}',
  )
  assert.equal(
    prettyJson('{"b":1.50,"a":[1.0,{}, []],"s":"{\\",:"}'),
    '{\n  "b": 1.50,\n  "a": [\n    1.0,\n    {},\n    []\n  ],\n  "s": "{\\",:"\n}',
  )
  for (const json of ['{"a":[{"b":[[],{}]}],"c":{"d":null}}', '[]', '{}', '"text"', '-1.5e3', '[[1],[2]]'])
    assert.equal(prettyJson(json), JSON.stringify(JSON.parse(json), null, 2).replace('-1500', '-1.5e3'))
})

test('of an answer, values of rows are kept as they were, the rows around them are not', () => {
  const answer = parseExact('{"items": [{"id":1, "doc":{"10": 1.0,  "b": 2}}], "nextCursor":null}', true)
  const { items } = answer as { items: { doc: unknown }[] }
  const results = parseExact('{"results":[{"rows":[[1.50, {"10": 1,  "b": [1.0, 2]}]]}]}', true)
  const [result] = (results as { results: { rows: unknown[][] }[] }).results
  assert.deepEqual(result?.rows[0]?.map(text), ['1.50', '{"10": 1,  "b": [1.0, 2]}'])
  assert.deepEqual(
    [text(items[0]?.doc), text(items[0])],
    ['{"10": 1.0,  "b": 2}', '{"id":1,"doc":{"10": 1.0,  "b": 2}}'],
  )
})

test('what JSON.parse refuses is refused with its words', () => {
  for (const bad of [
    '',
    '{',
    '{"a"}',
    '[1,]',
    '{"a":1,}',
    'nul',
    '01',
    '1.',
    '"\n"',
    '"open',
    '[1] 2',
    "{'a':1}",
    '[1 2]',
    '\u00a0[1]',
  ]) {
    assert.throws(() => parseExact(bad), SyntaxError, bad)
    assert.throws(() => JSON.parse(bad), SyntaxError, bad)
  }
  for (const good of [' [1 , 2 ]\n', '{"a" : "\\u0041\\\\" , "b":"\\""}', '"a\\\\"', '{"":{"":""}}'])
    assert.deepEqual(parseExact(good), JSON.parse(good))
})
