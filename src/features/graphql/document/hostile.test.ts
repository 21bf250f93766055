import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildSchema, getIntrospectionQuery, getVariableValues, parse } from 'graphql'
import { HOSTILE_DOCUMENTS } from '../../../../test/abuse/hostile-documents.ts'
import { startServer } from '../../../../test/kit/kit.ts'
import { overhearStatements } from '../../../../test/kit/statements.ts'
import { chooseOperation, Documents, measureCost, readVariables, requireWithinLimits } from './document.ts'
import { sizeOf } from './size.ts'
import { coerceVariables } from './variables.ts'

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

test('too many fields at the root are refused before anybody looks whether they exist', async () => {
  const fields = Array.from({ length: 201 }, (_, i) => `a${i}: nobody`).join(' ')
  const spread = `{ ...f } fragment f on Query { ${fields.replaceAll('nobody', 'posts { id }')} }`
  for (const query of [`{ ${fields} }`, `mutation { ${fields} }`, spread]) {
    const { body } = await ask({ query })
    assert.deepEqual(
      body.errors.map(({ message }: { message: string }) => message),
      ['more than 200 fields at the root'],
    )
  }
})

test('a flood ends the reading of its document', () => {
  const refusalOf = (name: string): string => {
    try {
      new Documents().read(HOSTILE_DOCUMENTS[name]?.query ?? '')
      return 'none'
    } catch (error) {
      return (error as Error).message
    }
  }
  const expected: Record<string, RegExp> = {
    'a megabyte of opening braces': /^Syntax Error/,
    'a megabyte of nested lists': /more than 200 levels$/,
    'a megabyte of closing braces': /^Syntax Error/,
    'a megabyte of comments': /more than 20000 comments$/,
    'a hundred thousand fields': /more that 20000 tokens/,
    'a hundred thousand aliases': /more that 20000 tokens/,
    'as many aliases as tokens allow': /more than 2000 aliases$/,
    'as many unknown fields as tokens allow': /more than 5000 different names$/,
    'a cycle of two thousand fragments': /more than 500 fragments$/,
    'one name of a megabyte': /a name of more than 1000 characters$/,
    'many operations with many variables': /too many operations for its size: 200$/,
    // A text of any length is one token, and what is between tokens is none.
    'a megabyte of text in quotes': /^none$/,
    'a megabyte of escapes': /^none$/,
    'a megabyte of lines in a block of text': /^none$/,
  }
  for (const [name, refusal] of Object.entries(expected)) assert.match(refusalOf(name), refusal, name)
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
  const measured = measureCost({ node, fragments: counted }, new Map())
  assert.deepEqual([...reads.values()], Array(31).fill(1))
  assert.deepEqual([measured.fields, measured.schemaFields > 2 ** 30], [0, true])
  const limits = { max_depth: 0, max_complexity: 0 }
  assert.throws(() => requireWithinLimits(measured, limits), /introspection of \d+ fields exceeds limit 1000/)
  const whole = measureCost(
    chooseOperation(parse(getIntrospectionQuery({ inputValueDeprecation: true })), undefined),
    new Map(),
  )
  assert.doesNotThrow(() => requireWithinLimits(whole, limits))
})

test('variables are counted wherever they are used, and no further than is too many', () => {
  const sizes = readVariables({ w: { a: [1, { b: null }] }, n: 1 }, new Set())
  assert.deepEqual(
    [...sizes],
    [
      ['w', 5],
      ['n', 1],
    ],
  )
  const measured = (query: string) => measureCost(chooseOperation(parse(query), undefined), sizes)
  const query =
    'query q($w: W, $d: W = {a: [1, 2]}) { ...f ...f a(w: {x: $w, y: [1]}) } fragment f on Q { b(w: $w, d: $d) }'
  assert.deepEqual(measured(query), { depth: 1, fields: 3, schemaFields: 0, steps: 13, values: 23 })

  let reads = 0
  const counting = new Proxy(Array(1_000_000).fill(0), {
    get: (target, key) => {
      if (typeof key === 'string' && /^\d/.test(key)) reads++
      return Reflect.get(target, key)
    },
  })
  assert.throws(() => readVariables({ w: counting }, new Set()), /more than 100000 values/)
  assert.ok(reads <= 100_001)
})

test('an object in a variable is asked for what it holds, not for all it could', () => {
  const columns = Array.from({ length: 500 }, (_, i) => `c${i}: Int`).join(' ')
  const schema = buildSchema(`input W { ${columns} } type Query { a(w: [W!]): Int }`)
  let reads = 0
  const item = new Proxy(
    { c1: 1, c2: null },
    {
      get: (target, key) => {
        reads++
        return Reflect.get(target, key)
      },
    },
  )
  const { node } = chooseOperation(parse('query q($w: [W!]) { a(w: $w) }'), undefined)
  const coerced = coerceVariables({ schema }, node, { w: Array(100).fill(item) }, false)
  assert.deepEqual(coerced['w'], Array(100).fill({ c1: 1, c2: null }))
  assert.equal(reads, 200)
})

test('variables are read as the library reads them', () => {
  const schema = buildSchema(`enum E { A B } input W { i: Int! e: E = B l: [[Int!]] w: W s: String }
    type Query { a(w: W, l: [W!], e: E, s: String!): Int }`)
  const { node } = chooseOperation(parse('query q($w: W, $l: [W!]!, $e: E, $s: String! = "x") { a }'), undefined)
  const cases: Record<string, unknown>[] = [
    { l: [] },
    { w: { i: 1 }, l: { i: 2, l: [1, [2, 3], null] }, e: 'A', s: 'y' },
    { w: null, l: [{ i: 3, w: { i: 4, e: null } }], e: null },
    { l: null },
    {},
    { l: [null] },
    { l: [{}] },
    { l: [{ i: '1' }] },
    { l: [{ i: 1, x: 1 }] },
    { l: [{ i: 1, e: 'C' }] },
    { l: [{ i: 1, w: [] }] },
    { l: [{ i: 1, l: [[null]] }] },
    { l: [], s: null },
    { l: [], s: {} },
    { l: [], e: ['A'] },
    { w: 1, l: [] },
    { l: [JSON.parse('{"i": 1, "__proto__": {}}')] },
  ]
  for (const given of cases) {
    const { coerced, errors } = getVariableValues(schema, node.variableDefinitions ?? [], given)
    const read = () => ({ ...coerceVariables({ schema }, node, given, false) })
    if (errors) assert.throws(read, { name: 'GraphQLError' }, JSON.stringify(given))
    else assert.deepEqual(read(), coerced, JSON.stringify(given))
  }
})

test('names are counted wherever they stand, and not in texts', () => {
  const text = 'query q($a: [Int!] = [1.5e3, -2]) @d { ...f a(b: """x "" \\""" {""", c: "\\"}{", e: E) } # {{{ \n'
  const { names, nodes, isLarge } = sizeOf(parse(text), text)
  assert.deepEqual([...names].sort(), ['E', 'Int', 'a', 'b', 'c', 'd', 'e', 'f', 'q'])
  assert.deepEqual([nodes, isLarge], [20, false])
})

test('names of arguments and variables are no aliases', () => {
  const variables = Array.from({ length: 2_001 }, (_, i) => `$v${i}: Int`).join(' ')
  const where = Array.from({ length: 2_001 }, () => '{id: {_eq: 1}}').join(' ')
  for (const query of [`query q(${variables}) { posts { id } }`, `{ posts(where: {_or: [${where}]}) { id } }`]) {
    assert.doesNotThrow(() => new Documents().read(query))
  }
})

test('a miss looks for what is new, but not for the sake of a large document', async () => {
  const overheard = await overhearStatements(api.databaseUrl)
  const server = await startServer({ on: api, config: { 'database.url': overheard.url } })
  // Now and then the server looks by itself, but not three times in a row.
  const looks = async (query: string): Promise<boolean> => {
    for (let i = 0; i < 3; i++) {
      const heard = await overheard.during(() => server.call('POST /api/graphql', { json: { query } }))
      if (!heard.some((text) => text.includes('pg_catalog.pg_policy'))) return false
    }
    return true
  }
  assert.equal(await looks('{ posts { nobody } }'), true)
  assert.equal(await looks(`{ posts { ${'id '.repeat(2_000)} nobody } }`), false)
  assert.equal(await looks(`{ posts { nobody(of: "${'x'.repeat(20_000)}") } }`), false)
  assert.equal(await looks(`{ posts(where: ${'{_not: '.repeat(50)}{nobody: 1}${'}'.repeat(50)}) { id } }`), false)
  await server.stop()
  await overheard.close()
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
