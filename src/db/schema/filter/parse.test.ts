import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../../../core/errors.ts'
import { parseFilter } from './parse.ts'

const refusal = (text: string): string => {
  try {
    parseFilter(text)
  } catch (error) {
    assert.ok(error instanceof AppError)
    assert.equal(error.status, 400)
    return error.message
  }
  return 'accepted'
}

test('a comparison is read with its path, operator and value', () => {
  assert.deepEqual(parseFilter("title='a'"), { kind: 'compare', path: ['title'], op: '=', value: 'a' })
  assert.deepEqual(parseFilter('author.age >= 18'), {
    kind: 'compare',
    path: ['author', 'age'],
    op: '>=',
    value: '18',
  })
  assert.deepEqual(parseFilter('"odd ""name"""!~\'%x\''), {
    kind: 'compare',
    path: ['odd "name"'],
    op: '!~',
    value: '%x',
  })
})

test('AND binds tighter than OR, in words of any case and in symbols', () => {
  const [a, b, c] = ['a', 'b', 'c'].map((path) => ({ kind: 'compare', path: [path], op: '=', value: '1' }))
  const expected = { kind: 'or', parts: [a, { kind: 'and', parts: [b, c] }] }
  assert.deepEqual(parseFilter('a=1 or b=1 And c=1'), expected)
  assert.deepEqual(parseFilter('a=1||b=1&&c=1'), expected)
  assert.deepEqual(parseFilter('(a=1 OR b=1) AND c=1'), {
    kind: 'and',
    parts: [{ kind: 'or', parts: [a, b] }, c],
  })
})

test('null tests, lists, booleans and numbers are literals of their own', () => {
  assert.deepEqual(parseFilter('a=null'), { kind: 'null', path: ['a'], negated: false })
  assert.deepEqual(parseFilter('a!=NULL'), { kind: 'null', path: ['a'], negated: true })
  assert.deepEqual(parseFilter("a in (1, -2.5e+3, 'x', TRUE)"), {
    kind: 'in',
    path: ['a'],
    values: ['1', '-2.5e+3', 'x', 'true'],
    fractional: true,
  })
})

test('quotes and backslashes are escaped as the grammar says', () => {
  const value = (text: string) => (parseFilter(text) as { value: string }).value
  assert.equal(value("a='it''s'"), "it's")
  assert.equal(value("a='it\\'s'"), "it's")
  assert.equal(value("a='\\\\'"), '\\')
  assert.equal(value("a='😀 $1 % _'"), '😀 $1 % _')
})

test('a blank filter is no filter', () => {
  assert.equal(parseFilter(''), undefined)
  assert.equal(parseFilter('  \n'), undefined)
})

test('errors name the position', () => {
  assert.equal(refusal('a=='), 'invalid filter: unexpected "=" at position 3')
  assert.equal(refusal('a=1 b=2'), 'invalid filter: unexpected "b" at position 5')
  assert.equal(refusal('a=1 AND'), 'invalid filter: unexpected "end of filter" at position 8')
  assert.equal(refusal('a=1 AND AND b=1'), 'invalid filter: unexpected "AND" at position 9')
  assert.equal(refusal("a='x"), 'invalid filter: unterminated string')
  assert.equal(refusal("a='x\\"), 'invalid filter: unterminated string')
  assert.equal(refusal("a='\\n'"), 'invalid filter: unexpected "\\" at position 4')
  assert.equal(refusal('a>null'), 'invalid filter: null requires = or !=')
  assert.equal(refusal('a in (null)'), 'invalid filter: null requires = or !=')
  assert.equal(refusal('a in ()'), 'invalid filter: unexpected ")" at position 7')
  assert.equal(refusal('a;drop table x'), 'invalid filter: unexpected ";" at position 2')
  assert.equal(refusal('(a=1'), 'invalid filter: unexpected "end of filter" at position 5')
  assert.equal(refusal('a'), 'invalid filter: unexpected "end of filter" at position 2')
  assert.equal(refusal("a='x\0'"), 'invalid filter: unexpected "\\u0000" at position 5')
})

test('length and nesting are bounded', () => {
  assert.equal(refusal(`a='${'x'.repeat(10_000)}'`), 'invalid filter: too long')
  assert.equal(refusal(`${'('.repeat(51)}a=1${')'.repeat(51)}`), 'invalid filter: nested too deeply')
  assert.notEqual(parseFilter(`${'('.repeat(50)}a=1${')'.repeat(50)}`), undefined)
  assert.equal(refusal('a.b.c.d.e=1'), 'invalid filter: nested too deeply')
  assert.equal(refusal('('.repeat(9_999)), 'invalid filter: nested too deeply')
})

test('parentheses beside each other do not count as nested', () => {
  const many = Array.from({ length: 200 }, () => '(a=1)').join(' AND ')
  assert.equal((parseFilter(many) as unknown as { parts: unknown[] }).parts.length, 200)
})
