import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  buildClientSchema,
  buildSchema,
  getIntrospectionQuery,
  type IntrospectionQuery,
  parse,
  validateSchema,
} from 'graphql'
import { startServer } from '../../../test/kit/kit.ts'
import { snapshotOf } from '../../../test/kit/snapshot.ts'
import { chooseOperation } from './document/document.ts'
import { Introspection } from './introspection.ts'
import { Names } from './names.ts'
import { selectionOf } from './selection.ts'

const TABLES = 40
const api = await startServer()
await api.sql(
  Array.from({ length: TABLES }, (_, i) => {
    return `create table t${i} (id int primary key, parent int references t${Math.max(0, i - 1)}, meta jsonb, at timestamptz);`
  }).join('\n'),
)
const schema = await snapshotOf(api.databaseUrl)
const names = new Names(schema, 'none')
const viewer = { role: 'none', allowedTables: [] } as const
const root = buildSchema('type Query { a: Int }').getQueryType()

/** With a break after every step, and how often others had their turn meanwhile. */
async function describe(query: string, isWanted: () => boolean) {
  const document = parse(query)
  const operation = chooseOperation(document, undefined)
  assert.ok(root)
  const asked = selectionOf([operation.node.selectionSet], root, operation, {})
  let [turns, isOver] = [0, false]
  const others = (): void => {
    turns++
    if (!isOver) setImmediate(others)
  }
  setImmediate(others)
  const compilation = { schema, viewer, names, operation, variables: {} }
  const texts = await new Introspection(0).answer(compilation, document, asked, isWanted)
  isOver = true
  return { turns, data: JSON.parse(`{${[...texts].map(([key, text]) => `"${key}":${text}`).join(',')}}`) }
}

test('types are made, found and described one at a time', async () => {
  const { turns, data } = await describe(getIntrospectionQuery(), () => true)
  const described = buildClientSchema(data as IntrospectionQuery)
  assert.deepEqual(validateSchema(described), [])
  const types = Object.keys(described.getTypeMap()).length
  assert.ok(types > 7 * TABLES)
  assert.ok(turns >= TABLES + 2 * types, `${turns} turns for ${types} types`)
})

test('what is asked about the schema is answered under its own keys', async () => {
  const query = `{ a: __schema { __typename all: types { kind } ...f queryType { name } }
    b: __type(name: "t1") { name fields { name } } } fragment f on __Schema { types { name } mutationType { name } }`
  const { data } = await describe(query, () => true)
  assert.deepEqual(Object.keys(data.a), ['__typename', 'all', 'types', 'mutationType', 'queryType'])
  assert.deepEqual(
    [data.a.__typename, data.a.queryType, data.a.mutationType],
    ['__Schema', { name: 'Query' }, { name: 'Mutation' }],
  )
  assert.equal(data.a.all.length, data.a.types.length)
  assert.deepEqual(Object.keys(data.a.all[0]), ['kind'])
  assert.ok(data.a.types.some(({ name }: { name: string }) => name === 't1_where'))
  assert.deepEqual(data.b.fields.map(({ name }: { name: string }) => name).slice(0, 2), ['id', 'parent'])
})

test('nothing more is described when nobody waits for it', async () => {
  let asked = 0
  const { data } = await describe('{ __schema { types { name } } }', () => ++asked <= 10)
  assert.equal(asked, 11)
  assert.equal(data.__schema.types.length, 9)
})
