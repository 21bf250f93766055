import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as t from '../core/json-type.ts'
import { queryCheck, readBody, readParams } from './contract.ts'

const thing = t.object({
  name: t.string({ maxLength: 5 }),
  count: t.optional(t.integer({ minimum: 0, refusal: 'count must not be negative' })),
  tags: t.optional(t.array(t.string())),
  kind: t.optional(t.oneOf(['a', 'b'])),
  note: t.optional(t.nullable(t.string())),
  owner: t.optional(t.uuid()),
  where: t.optional(t.object({ city: t.string() })),
})

const refusal = (body: unknown): string => {
  try {
    readBody(thing, body)
    return ''
  } catch (error) {
    return (error as Error).message
  }
}

test('a body is told what is wrong with it, in the words of the contract', () => {
  const cases: [unknown, string][] = [
    [[], 'invalid JSON body'],
    ['x', 'invalid JSON body'],
    [{}, 'name is required'],
    [{ name: '' }, 'name is required'],
    [{ name: null }, 'name is required'],
    [{ name: 1 }, 'name must be a string'],
    [{ name: 'a\0' }, 'name must not contain NUL'],
    [{ name: 'abcdef' }, 'name must be at most 5 characters'],
    [{ name: 'a', count: 1.5 }, 'count must not be negative'],
    [{ name: 'a', count: -1 }, 'count must not be negative'],
    [{ name: 'a', tags: 'x' }, 'tags must be an array of strings'],
    [{ name: 'a', tags: [1] }, 'tags must be an array of strings'],
    [{ name: 'a', kind: 'c' }, 'kind must be one of: a, b'],
    [{ name: 'a', owner: 'x' }, 'invalid owner format'],
    [{ name: 'a', where: {} }, 'where.city is required'],
    [{ name: 'a', where: 1 }, 'where must be an object'],
  ]
  for (const [body, message] of cases) assert.equal(refusal(body), message, JSON.stringify(body))
})

test('the handler gets the declared fields and nothing else; null counts as absent unless it means something', () => {
  const body = JSON.parse('{"name":"a","extra":1,"count":null,"note":null,"__proto__":{"kind":"a"}}')
  assert.deepEqual(readBody(thing, body), { name: 'a', note: null })
})

test('parameters of a path and booleans of a query have one right spelling', () => {
  assert.throws(() => readParams({ id: 'x' }, { id: t.id('thing') }), /^Error: invalid thing id format$/)
  const params = { id: '6F9619FF-8B86-D011-B42D-00CF4FC964FF' }
  readParams(params, { id: t.id('thing') })
  assert.equal(params.id, '6f9619ff-8b86-d011-b42d-00cf4fc964ff')
  assert.throws(() => queryCheck({ all: t.boolean() })?.({ all: '1' }), /^Error: all parameter must be a boolean$/)
  queryCheck({ all: t.boolean(), page: t.integer() })?.({ all: 'true' })
  assert.equal(queryCheck({ page: t.integer() }), undefined)
})
