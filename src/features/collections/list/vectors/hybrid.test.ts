import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutExtensions } from '../../../../../test/kit/cluster.ts'
import { type Answer, startServer, type TestServer } from '../../../../../test/kit/kit.ts'

type Item = { id: number; _hybrid_score: number; _fts_rank?: number; _vector_distance?: number }
const told = ({ status, body }: Answer) => `${status} ${body.message}`
const items = ({ status, body }: Answer): Item[] => {
  assert.equal(status, 200, JSON.stringify(body))
  return body.items
}
const config = { 'ai.embedding_provider': 'hash' }
const ask = (api: TestServer, query: Record<string, string>, as?: string, table = 'notes') =>
  api.call(
    `GET /api/collections/${table}?${new URLSearchParams({ semantic: 'true', vector_column: 'meaning', ...query })}`,
    as === undefined ? {} : { as },
  )

/** Vectors without words: each row is as near to the question as its vector, whatever it says. */
const TABLE = (type: string, id = 'int') => `
  create table notes (id ${id} primary key, body text, owner uuid, meaning ${type});
  insert into notes (id, body) select i, case when i % 3 = 0 then 'a fox number ' || i else 'nothing ' || i end from generate_series(1, 30) i;`

test('rows that are found by words and by meaning come first, each list counts by its places', async () => {
  const api = await startServer({ config })
  await api.sql(TABLE('real[]'))
  const near = (ids: number[]) =>
    api.sql(
      `update notes set meaning = case when id = any($1::int[]) then array_fill((id % 7 + 1)::real, array[256]) end`,
      [`{${ids}}`],
    )
  await near([3, 6, 8, 10])
  const found = await ask(api, { search: 'fox', distance: 'l2', perPage: '5' })
  const [first] = items(found)
  assert.ok(first && '_fts_rank' in first && '_vector_distance' in first)
  assert.ok([3, 6].includes(first.id))
  const { page, perPage, totalItems, totalPages } = found.body
  assert.deepEqual({ page, perPage, totalItems, totalPages }, { page: 1, perPage: 5, totalItems: 12, totalPages: 3 })
  const pages = [1, 2, 3].map((number) =>
    ask(api, { search: 'fox', distance: 'l2', perPage: '5', page: String(number) }),
  )
  const all = (await Promise.all(pages)).flatMap(items)
  assert.equal(new Set(all.map(({ id }) => id)).size, 12)
  const scores = all.map(({ _hybrid_score }) => _hybrid_score)
  assert.deepEqual(
    scores,
    [...scores].sort((a, b) => b - a),
  )
  const byMeaning = all.find(({ id }) => id === 8)
  assert.ok(byMeaning && !('_fts_rank' in byMeaning) && byMeaning._vector_distance !== undefined)
  const byWords = all.find(({ id }) => id === 9)
  assert.ok(byWords && !('_vector_distance' in byWords) && byWords._fts_rank !== undefined)

  // The ranks of all rows with a fox are equal, so that their keys decide: 3 is first among words.
  const places = { words: 1, near: 1 + [3, 6, 8, 10].map((id) => (id % 7) + 1).filter((n) => n < 4).length }
  const three = all.find(({ id }) => id === 3)
  assert.ok(three && Math.abs(three._hybrid_score - (1 / (60 + places.words) + 1 / (60 + places.near))) < 1e-9)

  assert.equal((await ask(api, { search: 'fox', sort: '-id' })).body.totalItems, 12)
  const uncounted = await ask(api, { search: 'fox', skipTotal: 'true', perPage: '5' })
  assert.deepEqual([items(uncounted).length, uncounted.body.totalItems, uncounted.body.totalPages], [5, -1, -1])
  assert.deepEqual(Object.keys(items(await ask(api, { search: 'fox', fields: 'id', filter: 'id = 9' }))[0] ?? {}), [
    'id',
    '_hybrid_score',
    '_fts_rank',
  ])
  assert.equal(items(await ask(api, { search: 'fox', filter: 'id < 9' })).length, 3)
  assert.deepEqual((await ask(api, { search: 'fox', filter: 'id > 100' })).body, {
    items: [],
    page: 1,
    perPage: 20,
    totalItems: 0,
    totalPages: 0,
  })
  assert.equal(told(await ask(api, { search: 'x'.repeat(1001) })), '400 search term too long')
  assert.equal(
    told(await ask(api, { search: 'fox', facets: 'id' })),
    '400 unsupported parameter "facets" in vector mode',
  )
  await api.sql('create table silent (id int primary key, meaning real[])')
  assert.equal(
    told(await ask(api, { search: 'fox' }, undefined, 'silent')),
    '400 search not supported: table has no text columns',
  )
})

test('a table without a key is fused by the places of its rows', async () => {
  const api = await startServer({ config })
  await api.sql(TABLE('real[]').replace(' primary key', ''))
  await api.sql(`update notes set meaning = array_fill(id::real, array[256]) where id <= 6`)
  const found = items(await ask(api, { search: 'fox', distance: 'l2' }))
  assert.equal(found.length, 14)
  assert.equal(found.filter((item) => '_fts_rank' in item && '_vector_distance' in item).length, 2)
})

test('only rows that the caller may see are counted and ranked', { skip: withoutExtensions }, async () => {
  const api = await startServer({ postgres: 'extensions', config })
  await api.sql(
    `create extension vector; ${TABLE('vector(8)', 'uuid').replace('select i,', "select ('00000000-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid,")}`,
  )
  const [ana, bo] = [await api.signUp('ana@example.com'), await api.signUp('bo@example.com')]
  await api.sql(`
    update notes set meaning = array[1,2,3,4,5,6,7,right(id::text, 2)::int]::vector,
      owner = case when right(id::text, 1)::int % 2 = 0 then '${ana.user.id}' else '${bo.user.id}' end::uuid;
    alter table notes enable row level security;
    create policy own on notes using (owner::text = current_setting('svc.user_id', true))`)
  const json = { table: 'notes', column: 'meaning', method: 'hnsw', metric: 'cosine' }
  assert.equal((await api.call('POST /api/admin/vector/indexes', { as: 'admin', json })).status, 201)
  for (const { token, user } of [ana, bo]) {
    const { body } = await ask(api, { search: 'fox' }, token)
    assert.equal(body.totalItems, 15)
    assert.ok(body.items.every((item: { owner: string }) => item.owner === user.id))
  }
  assert.equal((await ask(api, { search: 'fox' })).body.totalItems, 0)
})
