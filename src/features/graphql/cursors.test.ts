import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { overhearStatements } from '../../../test/kit/statements.ts'

const api = await startServer()
await api.sql(`
  create table authors (id int primary key, name text);
  create table posts (id int primary key, author_id int references authors, title text, views int, meta json);
  create table odd (id int primary key, "_cursor" text);
  create table keyless (v int);
  create table covered ("the key" text primary key, v int);
  insert into authors values (1, 'Ana'), (2, 'Bo');
  insert into posts select i, i % 2 + 1, 'title ' || i % 3, nullif(i % 4, 0) from generate_series(1, 10) i;
  insert into odd values (1, 'mine');
  insert into covered select 'key ' || i, 1 from generate_series(1, 5) i;
`)

const ask = async (query: string, variables: Record<string, unknown> = {}, options = {}) =>
  (await api.call('POST /api/graphql', { json: { query, variables }, ...options })).body
const data = async (query: string, variables = {}) => {
  const body = await ask(query, variables)
  assert.equal(body.errors, undefined, JSON.stringify(body.errors))
  return body.data
}
const failure = async (query: string, variables = {}) => {
  const { errors } = await ask(query, variables)
  return [errors?.[0]?.extensions.code, errors?.[0]?.message]
}
type Row = { id: number; _cursor: string; posts: Row[] }
const ids = (rows: readonly Row[]): number[] => rows.map(({ id }) => id)

const PAGE = `query q($after: String) {
  posts(first: 4, after: $after, order_by: [{views: DESC}, {title: ASC}]) { id _cursor } }`

test('pages follow each other by the cursor of their last row, and begin at the start without one', async () => {
  const seen: number[] = []
  for (let after: string | undefined = ''; after !== undefined; ) {
    const { posts } = await data(PAGE, { after })
    seen.push(...ids(posts))
    after = posts.at(-1)?._cursor
  }
  const all = await data('{ posts(order_by: [{views: DESC}, {title: ASC}]) { id } }')
  assert.deepEqual(seen, ids(all.posts))
  for (const after of [null, '', undefined])
    assert.deepEqual(ids((await data(PAGE, { after })).posts), seen.slice(0, 4))
})

test('a cursor is good for REST and back, as long as table and order are the same', async () => {
  const { posts } = await data(PAGE, {})
  const cursor = posts.at(-1)._cursor
  const rest = await api.call(`GET /api/collections/posts?cursor=${cursor}&sort=-views,title&perPage=3`)
  assert.deepEqual(ids(rest.body.items), ids((await data(PAGE, { after: cursor })).posts).slice(0, 3))
  assert.equal((await data(PAGE, { after: rest.body.nextCursor })).posts.length, 3)
  const invalid = [400, 'invalid cursor']
  assert.deepEqual(await failure('query q($a: String) { posts(after: $a) { id } }', { a: cursor }), invalid)
  assert.deepEqual(await failure('query q($a: String) { authors(after: $a) { id } }', { a: cursor }), invalid)
  for (const a of ['x', `${cursor}x`, `${cursor.slice(0, -3)}AAA`, '['.repeat(100_000)])
    assert.deepEqual(await failure(PAGE, { after: a }), invalid, a.slice(0, 40))
})

test('nested lists have pages of their own, all in one statement', async () => {
  const wire = await overhearStatements(api.databaseUrl)
  const server = await startServer({ on: api, config: { 'database.url': wire.url } })
  const nested = (after: string | null) => ({
    query: `query q($after: String) { authors(first: 2) { id _cursor
      posts(first: 2, after: $after, order_by: {views: DESC}) { id _cursor author { name } } } }`,
    variables: { after },
  })
  const first = (await server.call('POST /api/graphql', { json: nested(null) })).body.data.authors
  assert.deepEqual(
    first.map((row: Row) => ids(row.posts)),
    [
      [4, 8],
      [3, 7],
    ],
  )
  // What another row of the same table would have behind that place.
  const after = first[1].posts[1]._cursor
  let second: Row[] = []
  const statements = await wire.during(async () => {
    second = (await server.call('POST /api/graphql', { json: nested(after) })).body.data.authors
  })
  assert.deepEqual(
    second.map((row) => ids(row.posts)),
    [
      [2, 6],
      [1, 5],
    ],
  )
  assert.equal(statements.filter((text) => text.includes('"authors"')).length, 1)
  assert.equal(statements.filter((text) => text.includes('"posts"')).length, 1)
  await wire.close()
})

test('what stands in a row is never taken for a cursor', async () => {
  const word = 'ab'.repeat(16)
  await api.sql('update posts set meta = $1, title = $2 where id = 1', [
    `{"_cursor": "${word}0:5b5d"}`,
    `${word}0:5b5d`,
  ])
  const { posts } = await data('{ posts(first: 1) { title meta _cursor } }')
  assert.deepEqual([posts[0].title, posts[0].meta], [`${word}0:5b5d`, { _cursor: `${word}0:5b5d` }])
  assert.match(posts[0]._cursor, /^v1\./)
})

test('the key may have a name that GraphQL does not, and a column called _cursor stays what it is', async () => {
  const query = 'query q($after: String) { covered(first: 3, after: $after) { v _cursor } }'
  const { covered } = await data(query, {})
  assert.equal((await data(query, { after: covered[2]._cursor })).covered.length, 2)
  assert.deepEqual(await data('{ odd { _cursor } }'), { odd: [{ _cursor: 'mine' }] })
})

test('what cannot go together is named', async () => {
  const cases: [string, string][] = [
    ['{ posts(first: -1) { id } }', 'first must not be negative'],
    ['{ posts(first: 1, limit: 1) { id } }', 'first cannot be combined with "limit"'],
    ['{ posts(after: "x", offset: 1) { id } }', 'after cannot be combined with "offset"'],
    ['{ keyless(after: "x") { v } }', 'cursor requires a primary key'],
    ['{ keyless { _cursor } }', 'Cannot query field "_cursor" on type "keyless".'],
  ]
  for (const [query, message] of cases) assert.deepEqual(await failure(query), [400, message], query)
  assert.equal((await data('{ posts { id } }')).posts.length, 10)
  const elsewhere = `mutation { update_posts(where: {id: {_eq: 1}}, _set: {id: 1}) { returning { _cursor } } }`
  assert.deepEqual(await data(elsewhere), { update_posts: { returning: [{ _cursor: null }] } })
  assert.deepEqual(await data('{ posts(first: 0) { id } keyless(first: 3, limit: null) { v } }'), {
    posts: [],
    keyless: [],
  })
  await api.sql(`insert into posts (id, title) values (50, repeat('x', 5000))`)
  const long = await ask('{ posts(where: {id: {_eq: 50}}, order_by: {title: ASC}) { id _cursor } authors { id } }')
  assert.deepEqual([long.data.posts, long.data.authors.length], [null, 2])
  assert.equal(long.errors[0].message, 'a sort value is too long for a cursor')
})
