import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'log.level': 'info' } })
await api.sql(`
  create table posts (id int primary key, title text unique);
  create view titles as select id, title from posts;
  create view broken as select id, svc_missing.n from posts, lateral (select 1 as n) as svc_missing;
  create table notes (id int primary key, body jsonb, post_id int references posts);
  create table locked (id int primary key);
  revoke all on locked from svc_anon, svc_authenticated;
  create type loaded as (doc json);
  create table odd (id int primary key, docs json[], packed loaded, x xid);
  insert into posts values (1, 'a'), (2, 'b');
  insert into notes values (1, '{}', 1);
  insert into odd values (1, array['1'::json], row('1'), '1'), (2, array['2'::json], row('2'), '2');
  create function fail_oddly() returns trigger language plpgsql as $$ begin raise exception 'odd' using errcode = 'XX000'; end $$;
  create table failing (id int primary key);
  create trigger fail before insert on failing for each row execute function fail_oddly();
  create function broken_n(int) returns int language plpgsql stable as $$ begin raise exception 'odd' using errcode = 'XX000'; end $$;
  create view failed as select id, broken_n(id) as n from posts;
`)
const ask = (query: string, more: object = {}, as?: string) =>
  api.call('POST /api/graphql', { json: { query, ...more }, ...(as !== undefined && { as }) })
const failure = async (query: string) => {
  const { status, body } = await ask(query)
  return [status, body.errors?.[0].extensions.code, body.errors?.[0].message]
}

test('a mutation of what is not there, or may not be written, is a bad document', async () => {
  for (const name of ['nothing', 'titles', 'locked']) {
    const [status, code, message] = await failure(`mutation { insert_${name}(objects: []) { affected_rows } }`)
    assert.deepEqual([status, code], [200, 400], message)
    assert.match(message, new RegExp(`^Cannot query field "insert_${name}" on type "Mutation"`))
  }
})

test('the same key twice in an upsert is the fault of the request', async () => {
  const objects = '[{id: 5, title: "x"}, {id: 5, title: "y"}]'
  const conflict = 'on_conflict: {constraint: posts_pkey, update_columns: [title]}'
  const [, code] = await failure(`mutation { insert_posts(objects: ${objects}, ${conflict}) { affected_rows } }`)
  assert.equal(code, 400)
})

test('a root field that fails for reasons of the server is logged', async () => {
  const { body } = await ask('{ posts { id } failed { n } }')
  assert.equal(body.data.posts.length, 2)
  assert.deepEqual([body.data.failed, body.errors[0].extensions.code], [null, 500])
  const written = await ask('mutation { insert_failing(objects: [{id: 1}]) { affected_rows } }')
  assert.equal(written.body.errors[0].extensions.code, 500)
  const told = api.observations.filter(({ message }) => message === 'request failed')
  assert.equal(told.length, 2)
  for (const { attrs } of told) assert.match(`${attrs?.['route']} ${attrs?.['error']}`, /^\/api\/graphql .*odd/)
})

test('types without operators are bad conditions', async () => {
  for (const args of [
    'where: {docs: {_eq: ["1"]}}',
    'order_by: {docs: ASC}',
    'order_by: {packed: ASC}',
    'where: {packed: {_eq: {doc: 1}}}',
    'where: {packed: {_gt: {doc: 1}}}',
    'where: {x: {_gt: "1"}}',
  ]) {
    const [status, code, message] = await failure(`{ odd(${args}) { id } }`)
    assert.deepEqual([status, code], [200, 400], `${args}: ${message}`)
  }
})

test('a where over a relation outside allowedTables is refused', async () => {
  const { token } = await api.signUp('ana@x.test')
  const key = await api.call('POST /api/auth/api-keys', {
    as: token,
    json: { name: 'k', scope: '*', allowedTables: ['notes'] },
  })
  const { body } = await ask('{ notes(where: {post: {id: {_eq: 1}}}) { id } }', {}, key.body.key)
  assert.deepEqual([body.data?.notes ?? null, body.errors[0].extensions.code], [null, 403])
})

test('variables of type JSON keep their digits', async () => {
  const query =
    'mutation m($b: JSON, $o: [notes_insert_input!]!) { update_notes(where: {id: {_eq: 1}}, _set: {body: $b}) { affected_rows } insert_notes(objects: $o) { affected_rows } }'
  const text = (n: string) => `{"n": ${n}, "deep": [{"${'\\u0061'}": ${n}}]}`
  const [big, exact] = ['123456789012345678901234567890', '0.12345678901234567890123']
  const variables = `{"b": ${text(big)}, "b2": 1, "o": [{"id": 2, "body": ${text(exact)}}, {"id": 3, "body": "a}\\"]"}]}`
  const body = `{"query": ${JSON.stringify(query)}, "variables": {}, "variables": ${variables}}`
  const answer = await api.call('POST /api/graphql', { body, headers: { 'content-type': 'application/json' } })
  assert.equal(answer.body.errors, undefined)
  const rows = await api.sql('select body::text from notes order by id')
  assert.deepEqual(
    rows.map((row) => row.body),
    [`{"n": ${big}, "deep": [{"a": ${big}}]}`, `{"n": ${exact}, "deep": [{"a": ${exact}}]}`, '"a}\\"]"'],
  )
})
