import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  buildClientSchema,
  getIntrospectionQuery,
  isEnumType,
  isInputObjectType,
  isObjectType,
  validateSchema,
} from 'graphql'
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

test('a role is offered to write what it may write, also where it may read nothing of it', async () => {
  await refresh(`
    create type tone as enum ('low', 'high');
    create table letters (id int generated always as identity primary key, title text, secret text, tone tone, n int default 0,
      double int generated always as (n * 2) stored, unique (title));
    create table inbox (body text, tone tone, from_ip text default 'x');
    create table readings (id int primary key, v int);
    revoke all on letters, inbox, readings from svc_anon, svc_authenticated;
    grant select (id, title, n), insert (title, secret, tone), update (secret, n) on letters to svc_anon;
    grant insert (body, tone) on inbox to svc_anon;
    grant select on readings to svc_anon`)
  const schema = await schemaOf()
  const fieldsOf = (name: string) => {
    const type = schema.getType(name)
    assert.ok(isObjectType(type) || isInputObjectType(type), name)
    return Object.keys(type.getFields())
  }
  assert.deepEqual(fieldsOf('letters_insert_input'), ['title', 'secret', 'tone'])
  assert.deepEqual(fieldsOf('letters_set_input'), ['secret', 'n'])
  assert.deepEqual(fieldsOf('letters_inc_input'), ['n'])
  assert.deepEqual(fieldsOf('inbox_insert_input'), ['body', 'tone'])
  assert.deepEqual(fieldsOf('inbox_mutation_response'), ['affected_rows'])
  const mergeable = schema.getType('letters_update_column')
  assert.ok(isEnumType(mergeable))
  assert.deepEqual(
    mergeable.getValues().map(({ name }) => name),
    ['n'],
  )
  const mutations = fieldsOf('Mutation').filter((name) => /letters|inbox|readings/.test(name))
  assert.deepEqual(mutations, ['insert_inbox', 'insert_letters', 'update_letters'])
  assert.deepEqual(
    fieldsOf('Query').filter((name) => /letters|inbox|readings/.test(name)),
    ['letters', 'readings'],
  )

  const { data, errors } = await ask(`mutation {
    insert_inbox(objects: [{body: "a", tone: high}, {body: "b"}]) { affected_rows }
    none: insert_inbox(objects: []) { affected_rows }
    insert_letters(objects: [{title: "t", secret: "s", tone: low}]) { returning { title } }
    update_letters(where: {title: {_eq: "t"}}, _set: {secret: "z"}, _inc: {n: 2}) { returning { title n } }
  }`)
  assert.equal(errors, undefined, JSON.stringify(errors))
  assert.deepEqual(data, {
    insert_inbox: { affected_rows: 2 },
    none: { affected_rows: 0 },
    insert_letters: { returning: [{ title: 't' }] },
    update_letters: { returning: [{ title: 't', n: 2 }] },
  })
  assert.deepEqual(await api.sql('select secret, tone from letters union all select body, tone from inbox'), [
    { secret: 'z', tone: 'low' },
    { secret: 'a', tone: 'high' },
    { secret: 'b', tone: null },
  ])
  const upserted = await ask(`mutation { insert_letters(objects: [{title: "t"}],
    on_conflict: {constraint: letters_title_key, update_columns: [n]}) { returning { n } } }`)
  assert.deepEqual(upserted, { data: { insert_letters: { returning: [{ n: 0 }] } } })
  for (const refused of [
    '{ inbox { body } }',
    'mutation { insert_inbox(objects: [{from_ip: "y"}]) { affected_rows } }',
    'mutation { insert_inbox(objects: [{body: "a"}]) { returning { body } } }',
    'mutation { update_letters(where: {secret: {_eq: "z"}}, _set: {n: 1}) { affected_rows } }',
  ]) {
    assert.equal((await ask(refused)).errors[0].extensions.code, 400, refused)
  }
  for (const refused of ['a: insert_readings(objects: [{id: 1}])', 'a: delete_letters(where: {})']) {
    const { data, errors } = await ask(`mutation { ${refused} { affected_rows } }`)
    assert.deepEqual(
      [data, errors[0].extensions.code, errors[0].message, errors[0].path],
      [null, 403, 'insufficient permissions', ['a']],
    )
  }
})

test('a change by nothing is refused, as a comparison with nothing is', async () => {
  await refresh(
    `create table scores (id int primary key, score int, doc jsonb); insert into scores values (1, 5, '[1]')`,
  )
  const change = (by: string) => ask(`mutation { update_scores(where: {}, ${by}) { affected_rows } }`)
  for (const [by, message] of [
    ['_inc: {score: null}', '_inc.score must not be null'],
    ['_append: {doc: null}', '_append.doc must not be null'],
    ['_prepend: {doc: null}', '_prepend.doc must not be null'],
  ] as const) {
    const { data, errors } = await change(by)
    assert.deepEqual([data, errors[0].extensions.code, errors[0].message], [null, 400, message])
  }
  assert.equal((await change('_set: {score: null}, _append: {doc: [null]}, _inc: null')).errors, undefined)
  assert.deepEqual(await api.sql('select score, doc from scores'), [{ score: null, doc: '[1, null]' }])
})

test('a key of some tables is shown those alone', async () => {
  await refresh(
    'create table parents (id int primary key); create table children (id int primary key, parent_id int references parents)',
  )
  const { token } = await api.signUp('ana@x.test')
  const { body } = await api.call('POST /api/auth/api-keys', {
    as: token,
    json: { name: 'k', allowedTables: ['children'] },
  })
  const query = getIntrospectionQuery()
  const shown = await api.call('POST /api/graphql', { as: body.key, json: { query } })
  const schema = buildClientSchema(shown.body.data)
  assert.deepEqual(validateSchema(schema), [])
  assert.deepEqual(Object.keys(schema.getQueryType()?.getFields() ?? {}), ['children'])
  assert.ok(!shown.text.includes('parents'))
  const { body: named } = await api.call('POST /api/graphql', {
    as: body.key,
    json: { query: '{ __type(name: "parents") { name } }' },
  })
  assert.deepEqual(named.data, { __type: null })
})

test('lists of composites, domains and enums are compared, or refused with a reason', async () => {
  await refresh(`create type place as (x int, label text); create domain small as int; create type tint as enum ('a', 'b');
    create table crates (id int primary key, places place[], smalls small[], tints tint[], docs jsonb[], pair place);
    insert into crates values (1, array[row(1, 'a b')::place, null], '{1,null}', '{a}', array['{"k": [1]}'::jsonb], row(2, 'c'))`)
  const found = async (where: string) => {
    const { data, errors } = await ask(`{ crates(where: ${where}) { id } }`)
    return data?.crates ? data.crates.length : errors[0].extensions.code
  }
  const cases: [where: string, found: number][] = [
    ['{smalls: {_eq: [1, null]}}', 1],
    ['{smalls: {_in: [[2], [1, null]]}}', 1],
    ['{tints: {_eq: ["a"]}}', 1],
    ['{places: {_is_null: false}}', 1],
    ['{places: {_eq: [{x: 1, label: "a b"}, null]}}', 1],
    ['{places: {_in: [[{x: 1, label: "a b"}, null]]}}', 1],
    ['{places: {_neq: [{x: 1}]}}', 1],
    ['{pair: {_eq: {x: 2, label: "c"}}}', 1],
    ['{pair: {_in: [{x: 2, label: "c"}]}}', 1],
    ['{places: {_eq: [{x: "no number"}]}}', 400],
    ['{places: {_eq: [5]}}', 400],
    ['{smalls: {_eq: ["a"]}}', 400],
    ['{docs: {_eq: [{k: [1]}]}}', 1],
  ]
  for (const [where, number] of cases) assert.equal(await found(where), number, where)
})
