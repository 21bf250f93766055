import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildClientSchema, getIntrospectionQuery, isObjectType, validateSchema } from 'graphql'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
const refresh = (sql: string) => api.call('POST /api/admin/sql', { as: 'admin', json: { query: sql } })
const schemaOf = async () => {
  const { body } = await api.call('POST /api/graphql', { json: { query: getIntrospectionQuery() } })
  assert.equal(body.errors, undefined)
  const schema = buildClientSchema(body.data)
  assert.deepEqual(
    validateSchema(schema).map(({ message }) => message),
    [],
  )
  return schema
}
const ask = async (query: string) => (await api.call('POST /api/graphql', { json: { query } })).body

test('the schema of an empty database is valid', async () => {
  const schema = await schemaOf()
  const [field] = Object.keys(schema.getQueryType()?.getFields() ?? {})
  assert.deepEqual((await ask(`{ ${field} }`)).data, { [String(field)]: null })
})

test('names that begin with an underscore, or are those of types, make a valid schema', async () => {
  const { status, text } = await refresh(`
    create type "__mood" as enum ('a', 'b');
    create type "1st" as enum ('c');
    create schema other; create type other."1st" as enum ('d', 'e');
    create table _hidden (_id int primary key, "__x" int, mood "__mood", first "1st", second other."1st");
    create table "_and" (id int primary key, "_and" int, "_or" int, "_not" int);
    create table "Query" (id int primary key);
    create table "Query_row" (id int primary key);
    create table "Boolean" (id int primary key, query_id int references "Query");
    create table posts (id int primary key);
    create table posts_where (id int primary key, posts_id int references posts);
    create table posts_order_by (id int primary key);
    create table insert_posts (id int primary key);
    create table "OrderBy" (id int primary key);
    create table "String_comparison" (id int primary key, t text);
    create table "__dunder" (id int primary key);
    create table only_odd ("true" int primary key, "my col" int not null default 1);
    create table "odd key" (id int primary key);
    create table uses (id int primary key, "false" int unique);
    insert into _hidden values (1, 2, 'a', 'c', 'e')`)
  assert.equal(status, 200, text)
  const schema = await schemaOf()
  const mutation = Object.keys(schema.getMutationType()?.getFields() ?? {})
  for (const table of ['_hidden', 'only_odd', 'uses', 'posts', 'insert_posts']) {
    for (const verb of ['insert', 'update', 'delete'])
      assert.ok(mutation.includes(`${verb}_${table}`), `${verb}_${table}`)
  }
  assert.ok(isObjectType(schema.getType('posts')))
  const { data, errors } = await ask('{ _hidden { _id mood first second } }')
  assert.deepEqual([errors, data], [undefined, { _hidden: [{ _id: 1, mood: 'a', first: 'c', second: 'e' }] }])
  const written = await ask(
    'mutation { a: insert_only_odd(objects: [{true: 5}]) { returning { true } } b: insert_posts(objects: [{id: 1}]) { affected_rows } c: insert_insert_posts(objects: [{id: 1}]) { affected_rows } }',
  )
  assert.deepEqual(written.errors, undefined)
  assert.deepEqual(written.data.a, { returning: [{ true: 5 }] })
  const found = await ask('{ _and(where: {_and: [{id: {_eq: 1}}]}) { id _and } }')
  assert.deepEqual(found, { data: { _and: [] } })
})

test('where GraphQL is disabled, every method is told so', async () => {
  const off = await startServer({ on: api, config: { 'graphql.enabled': false } })
  for (const line of ['POST /api/graphql', 'GET /api/graphql', 'PUT /api/graphql'] as const) {
    const { status, body } = await off.call(line)
    assert.deepEqual([status, body.error], [404, 'feature_disabled'], line)
  }
  assert.equal((await api.call('GET /api/graphql')).status, 405)
})
