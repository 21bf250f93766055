import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { type InProcessServer, startServer } from '../../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql(`
    create type mood as enum ('sad', 'ok', 'happy');
    create domain email as text check (value like '%@%');
    create table authors (id int primary key, name text, boss_id int references authors);
    create table posts (
      id int primary key, author_id int references authors, title text, rank int, price numeric,
      mood mood, contact email, tags text[], meta jsonb, plain json, raw bytea, uid uuid, place point, at timestamptz
    );
    insert into authors values (1, 'ana', null), (2, 'bo', 1), (3, 'cy', 2);
    insert into posts (id, author_id, title, rank, price, mood, tags) select
      i, 1 + i % 3, 'post ' || i, nullif(i % 5, 0), i * 1.5, (array['sad', 'ok', 'happy'])[1 + i % 3]::mood, array['t' || i % 2]
      from generate_series(1, 45) i;
    create table empty (id int primary key);
    create table keyless (v int);
    insert into keyless values (1), (2);
  `)
})

const list = (query: Record<string, string>, table = 'posts') =>
  api.call(`GET /api/collections/${table}?${new URLSearchParams(query)}`)

const ids = async (filter: string, table = 'posts'): Promise<number[]> => {
  const { status, body } = await list({ filter, perPage: '500', fields: 'id' }, table)
  assert.equal(status, 200, JSON.stringify(body))
  return body.items.map(({ id }: { id: number }) => id)
}

const refusal = async (query: Record<string, string>): Promise<string> => {
  const { status, body } = await list(query)
  assert.equal(status, 400, JSON.stringify(body))
  assert.equal(body.code, 400)
  return body.message
}

test('the envelope has the page and the totals', async () => {
  const first = await list({ fields: 'id' })
  assert.deepEqual(first.body, {
    items: Array.from({ length: 20 }, (_, i) => ({ id: i + 1 })),
    page: 1,
    perPage: 20,
    totalItems: 45,
    totalPages: 3,
  })
  const last = await list({ fields: 'id', page: '3' })
  assert.deepEqual([last.body.items.length, last.body.page, last.body.totalPages], [5, 3, 3])
  const beyond = await list({ page: '9' })
  assert.deepEqual([beyond.body.items, beyond.body.totalItems], [[], 45])
  assert.deepEqual((await list({}, 'empty')).body, { items: [], page: 1, perPage: 20, totalItems: 0, totalPages: 0 })
})

test('page numbers are clamped, never refused', async () => {
  const shape = async (query: Record<string, string>) => {
    const { body } = await list({ ...query, fields: 'id' })
    return [body.page, body.perPage, body.items.length]
  }
  assert.deepEqual(await shape({ page: '0', perPage: '0' }), [1, 20, 20])
  assert.deepEqual(await shape({ page: 'x', perPage: '-3' }), [1, 20, 20])
  assert.deepEqual(await shape({ perPage: '9999' }), [1, 500, 45])
  assert.deepEqual(await shape({ page: '999999999999999999999' }), [100_000, 20, 0])
})

test('skipTotal leaves the count out', async () => {
  const { body } = await list({ skipTotal: 'true', perPage: '1' })
  assert.deepEqual([body.items.length, body.totalItems, body.totalPages], [1, -1, -1])
  assert.equal(await refusal({ skipTotal: 'yes' }), 'skipTotal parameter must be a boolean')
})

test('sort goes by the given columns and then by the key', async () => {
  const order = async (sort: string) => (await list({ sort, fields: 'id,rank', perPage: '6' })).body.items
  const sorted = (await api.sql('select id, rank from posts order by rank desc, id limit 6')) as { id: number }[]
  assert.deepEqual(
    (await order('-rank')).map(({ id }: { id: number }) => id),
    sorted.map(({ id }) => Number(id)),
  )
  assert.deepEqual((await order('-id'))[0].id, 45)
  assert.deepEqual(await order('+id'), await order('id'))
  // An unencoded plus arrives as a space.
  const unencoded = await api.call('GET /api/collections/posts?sort=+id&fields=id,rank&perPage=6')
  assert.deepEqual(unencoded.body.items, await order('id'))
  assert.equal(await refusal({ sort: 'nope' }), 'unknown column "nope" in sort parameter')
  assert.equal(await refusal({ sort: 'id;drop table posts' }), 'unknown column "id;drop table posts" in sort parameter')
  assert.equal(await refusal({ sort: Array(11).fill('id').join(',') }), 'too many sort fields')
  assert.equal(await refusal({ sort: 'plain' }), 'unsupported sort column "plain" with type "json"')
})

test('fields choose the columns', async () => {
  assert.deepEqual((await list({ fields: ' id , title ,id', perPage: '1' })).body.items, [{ id: 1, title: 'post 1' }])
  assert.equal(await refusal({ fields: 'id,nope' }), 'unknown column "nope" in fields parameter')
})

test('a table without a key is listed in its own order', async () => {
  assert.deepEqual((await list({}, 'keyless')).body.items, [{ v: 1 }, { v: 2 }])
})

test('every operator means what SQL means by it', async () => {
  assert.deepEqual(await ids('id=7'), [7])
  assert.deepEqual(await ids('id>43'), [44, 45])
  assert.deepEqual(await ids('id>=44'), [44, 45])
  assert.deepEqual(await ids('id<3'), [1, 2])
  assert.deepEqual(await ids('id<=2'), [1, 2])
  assert.deepEqual(await ids('id!=1 and id<4'), [2, 3])
  assert.deepEqual(await ids("title~'post 4%' and id>40"), [41, 42, 43, 44, 45])
  assert.deepEqual(await ids("title!~'post _' and id<12"), [10, 11])
  assert.deepEqual(await ids("title~'POST%'"), [])
  assert.deepEqual(await ids('id IN (3, 1, 99)'), [1, 3])
  assert.deepEqual(await ids('rank=null and id<=10'), [5, 10])
  assert.deepEqual(await ids('rank!=null and id<=5'), [1, 2, 3, 4])
  assert.deepEqual(await ids('rank!=1 and id<=6'), [2, 3, 4])
  assert.deepEqual(await ids("mood='happy' and id<6"), [2, 5])
  assert.deepEqual(await ids("mood in ('sad','ok') and id<4"), [1, 3])
  assert.deepEqual(await ids("mood~'%app%' and id<6"), [2, 5])
  assert.deepEqual(await ids("tags='{t0}' and id<5"), [2, 4])
  assert.deepEqual(await ids("tags in ('{t0}','{t1}') and id<3"), [1, 2])
  assert.deepEqual(await ids('price=1.5 or (price>66 and price<=67.5)'), [1, 45])
  assert.deepEqual(await ids("id~'4%' and id>9"), [40, 41, 42, 43, 44, 45])
  assert.deepEqual(await ids('meta=null and raw=null and place=null and id=1'), [1])
})

test('paths over relations are EXISTS, in both directions and through several hops', async () => {
  assert.deepEqual(await ids("author.name='bo' and id<5"), [1, 4])
  assert.deepEqual(await ids("author_id=2 and author.boss.name='ana' and id<5"), [1, 4])
  assert.deepEqual(await ids("posts.title='post 1'", 'authors'), [2])
  assert.deepEqual(await ids("authors.posts.title='post 1'", 'authors'), [1])
  assert.deepEqual(await ids('boss=null or boss_id=null', 'authors').catch(() => 'refused'), 'refused')
  assert.equal(await refusal({ filter: 'nope.name=1' }), 'invalid filter: unknown relation: nope')
  assert.equal(await refusal({ filter: 'author.nope=1' }), 'invalid filter: unknown column: nope')
  assert.equal(await refusal({ filter: 'author.boss.boss.boss.name=1' }), 'invalid filter: nested too deeply')
})

test('a filter that does not fit is a bad request that says why', async () => {
  assert.equal(await refusal({ filter: 'nope=1' }), 'invalid filter: unknown column: nope')
  assert.equal(
    await refusal({ filter: "uid='x'" }),
    'invalid filter: invalid uuid value: expected xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx',
  )
  assert.equal(await refusal({ filter: "mood='angry'" }), 'invalid filter: invalid mood value')
  assert.match(await refusal({ filter: "at>'not a date'" }), /^invalid filter: invalid timestamp with time zone value/)
  assert.match(await refusal({ filter: 'id=99999999999999999999' }), /^invalid filter: invalid integer value/)
  assert.match(await refusal({ filter: "title~'\\\\'" }), /^invalid filter: /)
  assert.match(await refusal({ filter: "contact='no at sign'" }), /^invalid filter: /)
  for (const column of ['meta', 'plain', 'raw', 'place']) {
    assert.equal(
      await refusal({ filter: `${column}='1'` }),
      `invalid filter: column "${column}" can only be compared with null`,
    )
  }
  assert.equal(await refusal({ filter: 'id = ' }), 'invalid filter: unexpected "end of filter" at position 6')
  assert.equal(await refusal({ filter: 'x'.repeat(10_001) }), 'invalid filter: too long')
})

test('look-alike functions and operators in an exposed schema are not heard', async () => {
  await api.sql(`
    create table shadowed (id int primary key, v varchar(10), e mood);
    insert into shadowed values (1, 'a', 'ok'), (2, 'b', 'sad');
    create function always(varchar, varchar) returns boolean language sql as 'select true';
    create operator public.= (leftarg = varchar, rightarg = varchar, function = always);
    create function always(mood, mood) returns boolean language sql as 'select true';
    create operator public.= (leftarg = mood, rightarg = mood, function = always);
    create function to_json(shadowed) returns json language sql as $$ select '"forged"'::json $$;
    create function concat(text, text) returns text language sql as $$ select 'forged' $$;
    create function json_to_record(json) returns setof record language sql as $$ select 9, 'forged'::varchar $$;
    create function count(int) returns bigint language sql as 'select 99::bigint'`)
  await list({}, 'empty')
  const { body } = await list({ filter: "v='a' and e='ok'" }, 'shadowed')
  assert.deepEqual([body.items, body.totalItems], [[{ id: 1, v: 'a', e: 'ok' }], 1])
  const made = await api.call('POST /api/collections/shadowed', { json: { id: 3, v: 'c' } })
  assert.deepEqual(made.body, { id: 3, v: 'c', e: null })
})

test('a comparison that a type does not know is a bad request', async () => {
  await api.sql(`create table rows_seen (id int primary key, x xid)`)
  const { status, body } = await list({ filter: "x>'5'" }, 'rows_seen')
  assert.deepEqual([status, body.message], [400, 'invalid filter: operator is not supported by the column type'])
})
