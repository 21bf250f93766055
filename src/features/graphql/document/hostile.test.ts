import assert from 'node:assert/strict'
import { test } from 'node:test'
import { getIntrospectionQuery, parse } from 'graphql'
import { HOSTILE_DOCUMENTS } from '../../../../test/hostile-documents.ts'
import { startServer } from '../../../../test/kit.ts'
import { chooseOperation, Documents, measure, requireWithin } from './document.ts'
import { readTokens } from './tokens.ts'

const api = await startServer()
await api.sql('create table posts (id int primary key, title text)')
const ask = (json: object) => api.call('POST /api/graphql', { json })

test('hostile documents are refused, in few words', async () => {
  for (const [name, document] of Object.entries(HOSTILE_DOCUMENTS)) {
    const { status, body } = await ask(document)
    assert.equal(status, 200, name)
    assert.ok(body.errors?.length > 0 && body.errors.length <= 10, name)
    for (const { message, extensions } of body.errors) {
      assert.equal(extensions.code, 400, `${name}: ${message}`)
      assert.ok(message.length <= 501, name)
    }
  }
  assert.equal((await api.call('GET /health')).status, 200)
})

test('nothing is read behind the token that is too many', () => {
  const read = (name: string): number => readTokens(HOSTILE_DOCUMENTS[name]?.query ?? '').count
  assert.equal(read('a megabyte of opening braces'), 201)
  assert.equal(read('a megabyte of nested lists'), 204)
  for (const name of ['closing braces', 'comments']) assert.equal(read(`a megabyte of ${name}`), 20_001)
  for (const name of ['fields', 'aliases']) assert.equal(read(`a hundred thousand ${name}`), 20_001)
  assert.equal(read('one name of a megabyte'), 2)
  // A text of any length is one token, and what is between tokens is none.
  for (const name of ['text in quotes', 'escapes', 'lines in a block of text']) {
    assert.equal(read(`a megabyte of ${name}`), 19, name)
  }
  assert.equal(read('a megabyte of commas'), 7)
})

test('each fragment is measured once, however often it is spread', () => {
  const reads = new Map<string, number>()
  const { document } = new Documents().read(HOSTILE_DOCUMENTS['a billion laughs about the schema']?.query ?? '')
  const { node, fragments } = chooseOperation(document, undefined)
  const counted = new Map([...fragments])
  counted.get = (name: string) => {
    reads.set(name, (reads.get(name) ?? 0) + 1)
    return fragments.get(name)
  }
  const measured = measure({ node, fragments: counted })
  assert.deepEqual([...reads.values()], Array(31).fill(1))
  assert.deepEqual([measured.fields, measured.schemaFields > 2 ** 30], [0, true])
  const limits = { max_depth: 0, max_complexity: 0 }
  assert.throws(() => requireWithin(measured, limits), /introspection of \d+ fields exceeds limit 1000/)
  const whole = measure(chooseOperation(parse(getIntrospectionQuery({ inputValueDeprecation: true })), undefined))
  assert.doesNotThrow(() => requireWithin(whole, limits))
})

test('tokens are counted as the specification has them', () => {
  const text = 'query q($a: [Int!] = [1.5e3, -2]) @d { ...f a(b: """x "" \\""" {""", c: "\\"}{") } # {{{ \n fragment'
  assert.deepEqual(readTokens(text), {
    count: 36,
    names: new Set(['query', 'q', 'a', 'Int', 'd', 'f', 'b', 'c', 'fragment']),
    refusal: undefined,
  })
})

test('where introspection is refused, no sentence tells what there is', async () => {
  const shut = await startServer({ on: api, config: { 'graphql.introspection': 'disabled' } })
  const message = async (server: typeof api, json: object): Promise<string> =>
    (await server.call('POST /api/graphql', { json })).body.errors[0].message
  const cases = [
    { query: '{ posts { titel } }' },
    {
      query: 'query q($w: posts_where) { posts(where: $w) { id } }',
      variables: { w: { titel: { _eq: 'x' } } },
    },
  ]
  for (const json of cases) {
    assert.match(await message(api, json), /Did you mean "title"\?$/)
    assert.doesNotMatch(await message(shut, json), /title/)
  }
})

test('a document that was found valid is judged again for another role, and after a change', async () => {
  await api.sql(`create table staff (id int primary key, pay int); grant select on staff to svc_authenticated;
    revoke all on staff from svc_anon; insert into staff values (1, 2)`)
  const { token: as } = await api.signUp('ana@x.test')
  const query = '{ staff { pay } }'
  const asked = async (options: { as?: string }) =>
    (await api.call('POST /api/graphql', { json: { query }, ...options })).body
  assert.deepEqual((await asked({ as })).data, { staff: [{ pay: 2 }] })
  assert.deepEqual((await asked({ as })).data, { staff: [{ pay: 2 }] })
  assert.equal((await asked({})).errors[0].message, 'Cannot query field "staff" on type "Query".')
  await api.call('POST /api/admin/sql', { as: 'admin', json: { query: 'alter table staff drop column pay' } })
  assert.match((await asked({ as })).errors[0].message, /^Cannot query field "pay" on type "staff"/)
})
