import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { type InProcessServer, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql(`
    create table posts (id int primary key, title text, n numeric);
    insert into posts values (1, 'one', 1.10), (2, 'two', 12345678901234567890.5);
    create type pair as (a int, b text);
    create function add(a int, b int) returns int language sql immutable as 'select a + b';
    create function greet(name text default 'you', loud boolean default false) returns text language sql
      as $$ select case when loud then upper('hi ' || name) else 'hi ' || name end $$;
    create function nothing() returns void language sql as 'select';
    create function nil() returns int language sql as 'select null::int';
    create function one_post(id int) returns posts language sql stable as 'select * from posts p where p.id = one_post.id';
    create function all_posts() returns setof posts language sql stable as 'select * from posts order by id';
    create function numbers(n int) returns setof int language sql as 'select generate_series(1, n)';
    create function tabular(n int) returns table (x int, y text) language sql as $$ select i, 'y' || i from generate_series(1, n) i $$;
    create function single_column() returns table (x int) language sql as 'values (1), (2)';
    create function divide(a int, b int, out quotient int, out remainder int) language sql as 'select a / b, a % b';
    create function doubled(inout v int) language sql as 'select v * 2';
    create function some_record() returns record language sql as $$ select 1 as a, 'x'::text as b $$;
    create function out_rows(out a int, out b text) returns setof record language sql as $$ values (1, 'x'), (2, 'y') $$;
    create function total(variadic vs numeric[]) returns numeric language sql as 'select sum(v) from unnest(vs) v';
    create function "Default Of"() returns int language sql as 'select 4';
    create function spread(a int default 1, b int default "Default Of"(), variadic vs int[] default '{7}') returns text
      language sql as $$ select concat_ws(' ', a, b, vs) $$;
    create function same(a anyelement, b anyelement) returns anyelement language sql as 'select a';
    create function first_of(vs anyarray, out v anyelement) language sql as 'select vs[1]';
    create function any_of(variadic vs anycompatiblearray) returns int language sql as 'select cardinality(vs)';
    create function same(a int) returns int language sql as 'select a';
    create function echo(v jsonb) returns jsonb language sql as 'select v';
    create function echo_big(v bigint) returns bigint language sql as 'select v';
    create function echo_pair(p pair) returns pair language sql as 'select p';
    create function echo_times(ts timestamptz[]) returns timestamptz[] language sql as 'select ts';
    create function area(side int) returns text language sql as $$ select 'square' $$;
    create function area(width int, height int) returns text language sql as $$ select 'rectangle' $$;
    create function area(width int, height int, depth int default 1) returns text language sql as $$ select 'box' $$;
    create function volume(side int) returns text language sql as $$ select 'cube' $$;
    create function volume(side int, times int) returns text language sql as $$ select 'cubes' $$;
    create function twin(v int) returns text language sql as $$ select 'int' $$;
    create function twin(v text) returns text language sql as $$ select 'text' $$;
    create function unnamed(int) returns int language sql as 'select $1';
    create function fails(how text) returns void language plpgsql as $$
    begin
      case how
        when 'raise' then raise exception 'no %', 'luck';
        when 'state' then raise exception 'custom' using errcode = 'ZZ123';
        when 'unique' then insert into posts values (1);
        when 'divide' then perform 1 / 0;
        when 'table' then execute 'select * from nowhere';
        when 'denied' then execute 'create table evil ()';
        when 'syntax' then execute 'selec';
        when 'assert' then assert false, 'asserted';
        when 'nodata' then raise no_data_found;
      end case;
    end $$;
    create function retitle() returns setof posts language sql as $$ update posts set title = title || '!' where id < 3 returning * $$;
    create function take_away(id int) returns posts language sql as 'delete from posts p where p.id = take_away.id returning *';
    create function whoami() returns text language sql stable as $$ select current_user || ':' || coalesce(current_setting('svc.user_id', true), '') $$;
    create function touched() returns trigger language plpgsql as 'begin return new; end';
    create procedure proc() language sql as 'select';
    create function private() returns int language sql as 'select 1';
    revoke execute on function private() from public, svc_anon, svc_authenticated;
    grant execute on function private() to svc_authenticated;
    create function save(id int, title text) returns posts language sql
      as 'insert into posts (id, title) values (id, title) returning *';
    create function "Odd Name"("a b" int) returns int language sql as 'select "a b"';
  `)
})

const call = (name: string, json?: unknown, more = {}) =>
  api.call(`POST /api/rpc/${encodeURIComponent(name)}`, { ...(json !== undefined && { json }), ...more })
const result = async (name: string, json?: unknown) => {
  const { status, body, text } = await call(name, json)
  assert.equal(status, 200, text)
  return body
}
const refusal = async (name: string, json?: unknown) => {
  const { status, body } = await call(name, json)
  assert.equal(body.code, status)
  return [status, body.message]
}

test('results keep the shape the function gives them', async () => {
  assert.equal(await result('add', { a: 2, b: 3 }), 5)
  assert.equal(await result('nil'), null)
  assert.deepEqual(await result('one_post', { id: 1 }), { id: 1, title: 'one', n: 1.1 })
  assert.deepEqual((await result('all_posts')).length, 2)
  assert.deepEqual(await result('numbers', { n: 2 }), [{ numbers: 1 }, { numbers: 2 }])
  assert.deepEqual(await result('numbers', { n: 0 }), [])
  assert.deepEqual(await result('tabular', { n: 1 }), [{ x: 1, y: 'y1' }])
  assert.deepEqual(await result('single_column'), [{ x: 1 }, { x: 2 }])
  assert.deepEqual(await result('divide', { a: 7, b: 2 }), { quotient: 3, remainder: 1 })
  assert.equal(await result('doubled', { v: 4 }), 8)
  assert.deepEqual(Object.values(await result('some_record')), [1, 'x'])
  assert.deepEqual(await result('out_rows'), [
    { a: 1, b: 'x' },
    { a: 2, b: 'y' },
  ])
  const nothing = await call('nothing')
  assert.deepEqual([nothing.status, nothing.text], [204, ''])
})

test('arguments go by name and take their defaults', async () => {
  assert.equal(await result('greet'), 'hi you')
  assert.equal(await result('greet', {}), 'hi you')
  assert.equal(await result('greet', { loud: true }), 'HI YOU')
  assert.equal(await result('greet', { loud: false, name: 'ana' }), 'hi ana')
  assert.equal(await result('total', { vs: [1.5, 2, '3'] }), 6.5)
  assert.deepEqual(await result('echo', { v: { a: [1, null] } }), { a: [1, null] })
  assert.deepEqual(await result('echo_pair', { p: { a: 1, b: 'x' } }), { a: 1, b: 'x' })
  assert.deepEqual(await result('echo_times', { ts: ['2026-01-01T00:00:00Z'] }), ['2026-01-01T00:00:00+00:00'])
  assert.equal(await result('Odd Name', { 'a b': 3 }), 3)
  assert.equal(await result('public.add', { a: 1, b: 1 }), 2)
  const big = await api.call('POST /api/rpc/echo_big', {
    body: '{"v":9007199254740993}',
    headers: { 'content-type': 'application/json' },
  })
  assert.equal(big.text, '9007199254740993')
})

test('each default is taken by itself, that of VARIADIC too', async () => {
  assert.equal(await result('spread'), '1 4 {7}')
  assert.equal(await result('spread', { a: 5 }), '5 4 {7}')
  assert.equal(await result('spread', { b: 5 }), '1 5 {7}')
  assert.equal(await result('spread', { vs: [1, 2] }), '1 4 {1,2}')
  assert.equal(await result('spread', { vs: [], b: null }), '1 {}')
  assert.equal(await result('spread', { vs: '{3}', a: 2, b: 3 }), '2 3 {3}')
})

test('functions of types that only SQL can tell are not there', async () => {
  for (const name of ['same', 'first_of', 'any_of'])
    assert.equal((await refusal(name, name === 'same' ? { a: 1, b: 2 } : { vs: [1] }))[0], name === 'same' ? 400 : 404)
  assert.equal(await result('same', { a: 1 }), 1)
  const [schema, openApi] = [await api.call('GET /api/schema'), await api.call('GET /api/openapi.json')]
  assert.deepEqual(
    Object.keys(schema.body.functions).filter((name) => /same|_of$/.test(name)),
    ['public.same'],
  )
  assert.equal(schema.body.functions['public.same'].overloads, undefined)
  assert.ok(!openApi.body.paths['/api/rpc/first_of'])
})

test('arguments that do not match are refused by name', async () => {
  assert.deepEqual(await refusal('add', { a: 1 }), [400, 'missing required argument "b" for function "add"'])
  assert.deepEqual(await refusal('greet', { nam: 'x' }), [400, 'unknown argument "nam" for function "greet"'])
  assert.deepEqual(await refusal('unnamed', { x: 1 }), [
    400,
    'function "unnamed" has unnamed parameters; cannot match by name',
  ])
  assert.deepEqual(await refusal('add', { a: 'x', b: 1 }), [
    400,
    'invalid integer value: expected a whole number from -2147483648 to 2147483647',
  ])
  for (const bad of [[], 'x', 5, null]) assert.deepEqual(await refusal('add', bad), [400, 'invalid JSON body'])
})

test('of several overloads the one with the fewest parameters that fits is called', async () => {
  assert.equal(await result('area', { side: 1 }), 'square')
  assert.equal(await result('volume', { side: 1 }), 'cube')
  assert.equal(await result('volume', { side: 1, times: 2 }), 'cubes')
  assert.equal(await result('area', { width: 1, height: 1, depth: 2 }), 'box')
  assert.deepEqual(await refusal('area', { width: 1 }), [400, 'missing required argument "height" for function "area"'])
  // PostgreSQL cannot decide between an overload that fits exactly and one that fits with a default.
  assert.deepEqual(await refusal('area', { width: 1, height: 1 }), [400, 'ambiguous call to function "area"'])
  assert.deepEqual(await refusal('twin', { v: 1 }), [400, 'ambiguous call to function "twin"'])
})

test('what a function raises is a bad request with its message', async () => {
  assert.deepEqual(await refusal('fails', { how: 'raise' }), [400, 'no luck'])
  assert.deepEqual(await refusal('fails', { how: 'state' }), [400, 'custom'])
  assert.deepEqual(await refusal('fails', { how: 'table' }), [400, 'relation "nowhere" does not exist'])
  assert.deepEqual(await refusal('fails', { how: 'syntax' }), [400, 'syntax error at or near "selec"'])
  assert.deepEqual(await refusal('fails', { how: 'assert' }), [400, 'asserted'])
  assert.equal((await refusal('fails', { how: 'nodata' }))[0], 400)
  assert.equal((await refusal('fails', { how: 'divide' }))[0], 400)
  assert.deepEqual(await refusal('fails', { how: 'unique' }), [409, 'unique constraint violation'])
  assert.deepEqual(await refusal('fails', { how: 'denied' }), [403, 'insufficient permissions'])
  assert.equal((await refusal('fails', { how: 'else' }))[0], 400)
})

test('only exposed functions exist, and all others give the same answer', async () => {
  const names = [
    'nope',
    'pg_sleep',
    'pg_read_file',
    'set_config',
    'current_setting',
    'pg_terminate_backend',
    'lo_import',
    'version',
    'pg_catalog.version',
    'touched',
    'proc',
    'svc.revoke',
    'svc.log_change',
    'private',
    'add;--',
    '"add"',
  ]
  for (const name of names) {
    assert.deepEqual(await refusal(name, {}), [404, `function not found: ${name}`])
  }
  const get = await api.call('GET /api/rpc/add')
  assert.deepEqual([get.status, get.body.message], [405, 'method not allowed'])
  const { token } = await api.signUp('ana@x.test')
  assert.equal((await call('private', {}, { as: token })).body, 1)
})

test('a function runs as its caller', async () => {
  const { token, user } = await api.signUp('bo@x.test')
  assert.equal(await result('whoami'), 'svc_anon:')
  assert.equal((await call('whoami', {}, { as: token })).body, `svc_authenticated:${user.id}`)
})

test('keys that are readonly or limited to tables may not call functions', async () => {
  const { token } = await api.signUp('cy@x.test')
  const key = async (json: object) =>
    (await api.call('POST /api/auth/api-keys', { as: token, json: { name: 'k', ...json } })).body.key as string
  const readonly = await call('add', { a: 1, b: 1 }, { as: await key({ scope: 'readonly' }) })
  assert.deepEqual([readonly.status, readonly.body.message], [403, 'api key scope does not permit write operations'])
  const limited = await call('add', { a: 1, b: 1 }, { as: await key({ allowedTables: ['posts'] }) })
  assert.deepEqual([limited.status, limited.body.message], [403, 'api key does not have access to functions'])
  assert.equal((await call('add', { a: 1, b: 1 }, { as: await key({}) })).body, 2)
})

test('notify headers append one change per returned row', async () => {
  const logged = async (name: string, json: object, headers: Record<string, string>) => {
    await api.sql('truncate svc.change_log, svc.change_packs')
    const { status, text } = await call(name, json, { headers: { 'content-type': 'application/json', ...headers } })
    assert.ok(status < 300, text)
    return api.sql('select action, table_name, pk::text, record::text from svc.changes order by id')
  }
  const on = (table: string, action: string) => ({ 'x-notify-table': table, 'x-notify-action': action })
  assert.deepEqual(await logged('save', { id: 70, title: 'made' }, on('posts', 'create')), [
    { action: 'create', table_name: 'posts', pk: '{"id": 70}', record: '{"n": null, "id": 70, "title": "made"}' },
  ])
  assert.deepEqual(await logged('retitle', {}, on('public.posts', 'update')), [
    { action: 'update', table_name: 'posts', pk: '{"id": 1}', record: '{"n": 1.10, "id": 1, "title": "one!"}' },
    {
      action: 'update',
      table_name: 'posts',
      pk: '{"id": 2}',
      record: '{"n": 12345678901234567890.5, "id": 2, "title": "two!"}',
    },
  ])
  assert.deepEqual(await logged('take_away', { id: 70 }, on('public.posts', 'delete')), [
    { action: 'delete', table_name: 'posts', pk: '{"id": 70}', record: null },
  ])
  for (const headers of [
    {},
    on('nope', 'create'),
    on('posts', 'explode'),
    on('svc.users', 'create'),
    { 'x-notify-table': 'posts' },
  ]) {
    assert.deepEqual(await logged('one_post', { id: 1 }, headers as Record<string, string>), [])
  }
  assert.deepEqual(await logged('nothing', {}, on('posts', 'create')), [])
  assert.deepEqual(await logged('add', { a: 1, b: 2 }, on('posts', 'create')), [])
})

test('a new function is found at once, a dropped one is gone', async () => {
  await api.sql(`create function brand_new() returns int language sql as 'select 42'`)
  assert.equal(await result('brand_new'), 42)
  await api.sql('drop function brand_new()')
  const { status } = await call('brand_new')
  assert.ok(status === 404 || status === 400)
})
