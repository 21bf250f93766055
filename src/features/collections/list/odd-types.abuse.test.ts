import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../../test/kit/kit.ts'

const api = await startServer()
await api.sql(`
  create type pair as (a int, b int);
  create table pairs (id int primary key, p pair);
  insert into pairs values (1, null), (2, row(null, null)), (3, row(1, null)), (4, row(1, 2)), (5, row(null, null)), (6, null),
    (7, row(null, 3));
`)
const idsOf = (items: { id: number }[]) => items.map(({ id }) => id)

test('cursors over a composite column reach each row once', async () => {
  for (const sort of ['p', '-p']) {
    const whole = await api.call(`GET /api/collections/pairs?sort=${sort}`)
    const seen: number[] = []
    let cursor = ''
    for (let pages = 0; pages < 20; pages++) {
      const { body } = await api.call(
        `GET /api/collections/pairs?sort=${sort}&perPage=1&cursor=${encodeURIComponent(cursor)}`,
      )
      seen.push(...idsOf(body.items))
      if (body.nextCursor === null) break
      cursor = body.nextCursor
    }
    assert.deepEqual(seen, idsOf(whole.body.items), sort)
  }
})

test('a composite value is null where its JSON is null', async () => {
  const filtered = async (filter: string) =>
    idsOf((await api.call(`GET /api/collections/pairs?filter=${encodeURIComponent(filter)}`)).body.items)
  assert.deepEqual(
    [await filtered('p = null'), await filtered('p != null')],
    [
      [1, 6],
      [2, 3, 4, 5, 7],
    ],
  )
  const query = '{ a: pairs(where: {p: {_is_null: true}}) { id } b: pairs(where: {p: {_is_null: false}}) { id } }'
  const { body } = await api.call('POST /api/graphql', { json: { query } })
  assert.deepEqual(
    [idsOf(body.data.a), idsOf(body.data.b)],
    [
      [1, 6],
      [2, 3, 4, 5, 7],
    ],
  )
})

test('values of a type whose schema is not exposed are compared by the operators of the type', async () => {
  await api.sql(`
    create schema ext;
    create extension citext schema ext; create extension isn schema ext; create extension seg schema ext;
    create extension hstore schema ext; grant usage on schema ext to public;
    create domain address as ext.citext;
    create table people (email ext.citext primary key, n int);
    create table letters (id int primary key, email ext.citext references people, reply address references people, cc ext.citext[]);
    create table names (name text primary key);
    create table badges (id int primary key, name ext.citext references names);
    create table books (isbn ext.isbn primary key, title text);
    create table copies (id int primary key, isbn ext.isbn references books, length ext.seg, facts ext.hstore);
    insert into people values ('Ana@x.test', 1), ('bob@x.test', 2), ('CY@x.test', 3);
    insert into letters values (1, 'ana@x.test', 'ANA@X.TEST', '{ANA@x.test}'), (2, 'cy@x.test', null, null);
    insert into names values ('Ana'); insert into badges values (1, 'Ana');
    insert into books values ('0-306-40615-2', 'a'), ('0-13-110362-8', 'b');
    insert into copies values (1, '0306406152', '1 .. 2', 'a=>1'), (2, '0131103628', '2', 'a=>2')`)
  const list = async (path: string) => {
    const { status, text, body } = await api.call(`GET /api/collections/${path}`)
    assert.equal(status, 200, `${path}: ${text}`)
    return body.items
  }
  const filtered = (table: string, filter: string) => list(`${table}?filter=${encodeURIComponent(filter)}`)

  const [letter] = await list('letters?expand=people,reply')
  assert.deepEqual([letter.expand.people.n, letter.expand.reply.n], [1, 1])
  const [badge] = await list('badges?expand=names')
  assert.equal(badge.expand.names.name, 'Ana')
  const [copy] = await list('copies?expand=books')
  assert.equal(copy.expand.books.title, 'a')
  const query = `{ letters(where: {email: {_eq: "ANA@x.test"}}) { id people { n } } }`
  const answer = await api.call('POST /api/graphql', { json: { query } })
  assert.deepEqual(answer.body.data?.letters, [{ id: 1, people: { n: 1 } }], answer.text)

  for (const filter of ["email='ANA@x.test'", "email!='BOB@x.test' && email!='cy@X.test'", "email<'BOB@x.test'"])
    assert.deepEqual(
      (await filtered('people', filter)).map(({ n }: { n: number }) => n),
      [1],
      filter,
    )
  for (const filter of ['email.n=1', "reply='ana@X.test'", "email in ('ANA@X.TEST','x')", "cc='{ana@x.TEST}'"])
    assert.deepEqual(idsOf(await filtered('letters', filter)), [1], filter)
  for (const filter of ["isbn='0306406152'", "isbn.title='a'", "length<'2'", `facts='"a"=>"1"'`])
    assert.deepEqual(idsOf(await filtered('copies', filter)), [1], filter)
  const first = await api.call('GET /api/collections/people?sort=email&perPage=2&cursor=')
  const second = await api.call(`GET /api/collections/people?sort=email&perPage=2&cursor=${first.body.nextCursor}`)
  assert.deepEqual(second.body.items, [{ email: 'CY@x.test', n: 3 }])

  for (const as of [undefined, 'admin'])
    assert.equal((await api.call('GET /api/collections/people/ANA@x.test', as ? { as } : {})).body.n, 1)
  const upsert = 'POST /api/collections/people?onConflict=email&merge=ignore'
  const kept = await api.call(upsert, { json: { email: 'ANA@x.test', n: 7 } })
  assert.deepEqual([kept.status, kept.body], [200, { email: 'Ana@x.test', n: 1 }], kept.text)
  const renamed = await api.call('PATCH /api/collections/books/0306406152', { json: { title: 'c' } })
  assert.deepEqual([renamed.status, renamed.body.title], [200, 'c'], renamed.text)
  const explained = await api.call('POST /api/admin/rls/explain', {
    as: 'admin',
    json: { table: 'books', operation: 'select', id: '0306406152' },
  })
  assert.equal(explained.status, 200, explained.text)
  const batch = await api.call('POST /api/collections/books/batch', {
    json: { operations: [{ method: 'delete', id: '0131103628' }] },
  })
  assert.match(batch.text, /referenced|still/)

  await api.sql(`
    create table codes (ean ext.ean13 primary key, n int); create table uses (id int primary key, isbn ext.isbn references codes);
    insert into codes values ('978-0-306-40615-7', 5); insert into uses values (1, '0306406152')`)
  assert.equal((await list('uses?expand=codes'))[0].expand.codes.n, 5)
  await api.sql('alter extension citext set schema public')
  await eventually(async () => assert.deepEqual(idsOf(await filtered('letters', "email='ANA@X.test'")), [1]))
})

test('who may not name the operators of a type reads on as before', async () => {
  await api.sql(`
    create schema kept; create extension ltree schema kept;
    create table tags (path kept.ltree primary key); create table notes (id int primary key, tag text);
    insert into tags values ('a.b')`)
  const { status, text } = await api.call('GET /api/collections/tags')
  assert.deepEqual([status, text.includes('a.b')], [200, true], text)
  const denied = await api.call('GET /api/collections/tags/a.b')
  assert.equal(denied.status, 403, denied.text)
  // The server grants it to its own logins when it sees the schema, and PostgreSQL takes one grant at a time.
  await eventually(() => api.sql('grant usage on schema kept to public'))
  await eventually(async () => assert.equal((await api.call('GET /api/collections/tags/a.b')).status, 200))
})
