import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'api.schemas': ['public', 'side'] } })
await api.sql(`
  create type mood as enum ('calm', 'wild');
  create table authors (id serial primary key, name text not null, secret text);
  comment on table authors is 'Who writes';
  create table posts (
    id int generated always as identity primary key, author_id int references authors, title text not null,
    mood mood not null default 'calm', moods mood[], views bigint, data jsonb, at timestamptz not null default now());
  create table hidden (id int primary key);
  create table pairs (a int, b int, primary key (a, b));
  create table vectors (id int primary key, v real[]);
  create view titles as select title from posts;
  create table "odd name/{x}" (id int primary key);
  create table side.posts (id int primary key);
  create function add(a int, b int default 1) returns int language sql as 'select a + b';
  create function add(a text) returns text language sql as 'select a';
  create function busiest() returns setof posts language sql as 'select * from posts';
  create domain ref as oid;
  create domain refs as oid[];
  create table things (id int primary key, o oid not null, os oid[], r ref, n int, more ref[], rs refs);
  insert into things values (1, 4294967295, '{1,null}', 7, 3, '{8}', '{9}'), (2, 0, null, null, null, null, null);
  create function things_of(o oid) returns setof things language sql stable as 'select * from things t where t.o = things_of.o';
  create function next_oid(o oid, more oid[] default null) returns oid language sql as 'select (o::int8 + 1)::oid';
  create function longest(variadic words text[]) returns text language sql as 'select max(w) from unnest(words) w';
  create function nothing() returns void language sql as '';
  create function private() returns int language sql as 'select 1';
  revoke all on hidden from svc_anon, svc_authenticated;
  revoke select (secret) on authors from svc_anon, svc_authenticated;
  revoke all on authors from svc_anon, svc_authenticated;
  grant select (id, name), insert (id, name) on authors to svc_anon, svc_authenticated;
  grant select (secret) on authors to svc_authenticated;
  revoke execute on function private() from public, svc_anon, svc_authenticated;
  grant usage on schema side to svc_anon, svc_authenticated;
  revoke all on side.posts from svc_anon, svc_authenticated;
  grant select on side.posts to svc_anon, svc_authenticated`)
await api.call('POST /api/admin/sql', { as: 'admin', json: { query: 'create table reloaded (id int primary key)' } })

const read = async (as?: string) => {
  const answer = await api.call('GET /api/openapi.json', as === undefined ? {} : { as })
  assert.equal(answer.status, 200)
  return answer
}
const document = (await read()).body

test('the document is valid OpenAPI 3.1 for everybody', async () => {
  const ana = await api.signUp('ana@x.test')
  for (const as of [undefined, ana.token, 'admin']) {
    const { valid, errors } = await new Validator().validate((await read(as)).body)
    assert.ok(valid, JSON.stringify(errors))
  }
  assert.equal(document.openapi, '3.1.0')
  assert.match(document.info.version, /^\d+\.\d+\.\d+/)
})

test('every reference leads somewhere, and operation ids are unique', () => {
  const text = JSON.stringify(document)
  for (const [, kind = '', name = ''] of text.matchAll(/"#\/components\/(\w+)\/([^"]+)"/g)) {
    assert.ok(document.components[kind][name], `${kind} ${name}`)
  }
  const ids = [...text.matchAll(/"operationId":"([^"]+)"/g)].map(([, id]) => id)
  assert.deepEqual(
    ids.filter((id, i) => ids.indexOf(id) !== i),
    [],
  )
})

test('all routes are there', () => {
  for (const { method, path } of api.app.routes) {
    assert.ok(document.paths[path.replaceAll('...}', '}')][method.toLowerCase()], `${method} ${path}`)
  }
})

test('tables are described with their columns, enums and required values', () => {
  const { schemas } = document.components
  assert.deepEqual(schemas['Row.posts'].required, ['id', 'author_id', 'title', 'mood', 'moods', 'views', 'data', 'at'])
  assert.deepEqual(schemas['Row.posts'].properties.mood, { $ref: '#/components/schemas/Enum.mood' })
  assert.deepEqual(schemas['Enum.mood'].enum, ['calm', 'wild'])
  assert.deepEqual(schemas['Create.posts'].required, ['title'])
  assert.ok(!('id' in schemas['Create.posts'].properties), 'an identity that is always generated cannot be given')
  assert.equal(schemas['Update.posts'].required, undefined)
  assert.equal(schemas['Row.authors'].description, 'Who writes')
  assert.deepEqual(Object.keys(document.paths['/api/collections/posts/{id}']), ['get', 'patch', 'delete'])
  assert.deepEqual(Object.keys(document.paths['/api/collections/authors']), ['get', 'post'])
  assert.deepEqual(Object.keys(document.paths['/api/collections/side.posts']), ['get'])
  assert.ok(document.paths[`/api/collections/${encodeURIComponent('odd name/{x}')}`])
})

test('tables are described with what they can do, from the declarations of the general routes', async () => {
  const at = (path: string, method: string) => document.paths[`/api/collections/${path}`]?.[method]
  const named = (path: string, method: string): string[] =>
    (at(path, method).parameters ?? []).map(({ $ref }: { $ref: string }) => $ref.split('/').pop())
  const list = named('posts', 'get')
  for (const name of ['cursor', 'total', 'aggregate', 'group', 'search', 'fuzzy', 'facets', 'highlight']) {
    assert.ok(list.includes(name), name)
  }
  assert.ok(!list.includes('nearest') && !list.includes('near'), 'there is no vector and no place in posts')
  assert.ok(named('vectors', 'get').includes('nearest') && !named('vectors', 'get').includes('search'))
  assert.ok(!named('titles', 'get').includes('cursor'), 'a view has no key')
  assert.deepEqual(named('posts', 'post'), ['onConflict', 'merge'])
  assert.deepEqual(named('posts/export.csv', 'get'), ['filter', 'sort', 'fields', 'search'])
  assert.deepEqual(named('posts/import', 'post'), ['onConflict', 'merge', 'dry_run'])
  const { content } = at('posts/import', 'post').requestBody
  assert.deepEqual(Object.keys(content), ['text/csv', 'application/json', 'application/x-ndjson'])
  assert.deepEqual(content['application/json'].schema.items, { $ref: '#/components/schemas/Create.posts' })
  const { anyOf } = at('posts', 'get').responses[200].content['application/json'].schema
  assert.deepEqual(anyOf[0].properties.items.items, { $ref: '#/components/schemas/Row.posts' })
  assert.ok(at('posts/batch', 'post') && !at('side.posts/import', 'post'), 'who may not insert is told of no import')
  const declared = api.app.routes.find(({ method, path }) => `${method} ${path}` === 'GET /api/collections/{table}')
  for (const name of Object.keys(declared?.contract.query ?? {})) assert.ok(document.components.parameters[name], name)
})

test('what is answered is as it is described', async () => {
  const ana = await api.signUp('things@x.test')
  await api.sql(`select svc.open_history('public.things', actor => true)`)
  const { components, paths } = (await read(ana.token)).body
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  const isDescribed = async (line: 'GET' | 'POST' | 'PATCH', path: `/${string}`, rest: string, options = {}) => {
    const { status, body, text } = await api.call(`${line} /${path.slice(1).replace('{id}', '1')}${rest}`, {
      as: ana.token,
      ...options,
    })
    const declared = paths[path][line.toLowerCase()].responses[status]
    assert.ok(declared, `${line} ${path}${rest} ${status} ${text}`)
    const validate = ajv.compile({ ...declared.content['application/json'].schema, components })
    const isValid: boolean = validate(body)
    assert.ok(isValid, `${line} ${path}${rest} ${text} ${JSON.stringify(validate.errors)}`)
    return body
  }
  const [list, one] = ['/api/collections/things', '/api/collections/things/{id}'] as const
  const { items } = await isDescribed('GET', list, '?sort=id')
  assert.deepEqual(items[0], { id: 1, o: 4294967295, os: [1, null], r: 7, n: 3, more: [8], rs: [9] })
  await isDescribed('GET', list, '?fields=n&facets=o')
  await isDescribed('GET', list, '?cursor=&fields=o')
  await isDescribed('GET', list, '?aggregate=count,sum(n),max(o)&group=o')
  await isDescribed('GET', one, '')
  await isDescribed('GET', one, '?fields=os')
  assert.equal((await isDescribed('PATCH', one, '', { json: { n: 4, o: 4294967294 } })).o, 4294967294)
  const history = await isDescribed('GET', '/api/collections/things/{id}/history', '')
  assert.equal(history.items[0].actor.id, ana.user.id)
  assert.ok(!JSON.stringify(paths['/api/collections/things/{id}/history'].get).includes('Row.things'))
  await isDescribed('POST', '/api/rpc/things_of', '', { json: { o: 4294967294 } })
  assert.equal(await isDescribed('POST', '/api/rpc/next_oid', '', { json: { o: 4294967294, more: null } }), 4294967295)
  const headers = { 'dry-run': 'true' }
  assert.equal((await isDescribed('POST', '/api/rpc/next_oid', '', { json: { o: 1 }, headers })).dry_run.answer, 2)
  assert.equal((await isDescribed('POST', '/api/rpc/nothing', '', { headers })).dry_run.status, 204)
  const { data } = (
    await api.call('POST /api/graphql', { json: { query: '{ things(where: {o: {_gte: 1}}) { o os r more rs } }' } })
  ).body
  assert.deepEqual(data.things, [{ o: 4294967294, os: [1, null], r: 7, more: [8], rs: [9] }])
})

test('arguments are described as a call takes them', () => {
  const argsOf = (name: string) =>
    document.paths[`/api/rpc/${name}`].post.requestBody.content['application/json'].schema
  assert.deepEqual(argsOf('longest').required, ['words'])
  const { required, properties } = argsOf('next_oid')
  assert.deepEqual(required, ['o'])
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  for (const o of [1, null]) assert.ok(ajv.validate(properties.o, o))
  assert.ok(!ajv.validate(properties.o, true))
})

test('functions are described with their arguments and results', () => {
  const { post } = document.paths['/api/rpc/add']
  const [one, two] = post.requestBody.content['application/json'].schema.anyOf
  assert.deepEqual([one.required, two.required], [['a'], ['a']])
  assert.equal(
    document.paths['/api/rpc/busiest'].post.responses[200].content['application/json'].schema.anyOf[0].items.$ref,
    '#/components/schemas/Row.posts',
  )
  assert.deepEqual(Object.keys(document.paths['/api/rpc/nothing'].post.responses), ['200', '204', 'default'])
})

test('nobody is told what they may not use', async () => {
  const ana = await api.signUp('bo@x.test')
  const [anonymous, user, admin] = [await read(), await read(ana.token), await read('admin')]
  for (const { text } of [anonymous, user]) {
    assert.ok(!text.includes('/api/collections/hidden') && !text.includes('/api/rpc/private'))
    assert.ok(!text.includes('svc_anon') && !text.includes('/api/collections/svc'))
  }
  assert.ok(!('secret' in anonymous.body.components.schemas['Row.authors'].properties))
  assert.ok('secret' in user.body.components.schemas['Row.authors'].properties)
  assert.ok(admin.body.paths['/api/collections/hidden'])
  const { body: key } = await api.call('POST /api/auth/api-keys', {
    as: ana.token,
    json: { name: 'one table', allowedTables: ['pairs'] },
  })
  const { body: limited } = await read(key.key)
  const named = Object.keys(limited.paths).filter((path) => /^\/api\/(collections|rpc)\/[^{]/.test(path))
  assert.deepEqual(named.length > 0 && named.filter((path) => !/^\/api\/collections\/pairs(\/|$)/.test(path)), [])
  assert.equal((await api.call('GET /api/openapi.json', { as: 'nonsense' })).status, 401)
})

test('a client that has this version is not sent it again, and hears of the next', async () => {
  const etag = (await read()).headers.get('etag') ?? ''
  const again = await api.call('GET /api/openapi.json', { headers: { 'if-none-match': etag } })
  assert.deepEqual([again.status, again.text], [304, ''])
  await api.call('POST /api/admin/sql', { as: 'admin', json: { query: 'create table later (id int primary key)' } })
  const next = await api.call('GET /api/openapi.json', { headers: { 'if-none-match': etag } })
  assert.equal(next.status, 200)
  assert.ok(next.body.paths['/api/collections/later'])
})
