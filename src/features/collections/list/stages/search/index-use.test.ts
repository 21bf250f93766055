import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, eventually, startServer } from '../../../../../../test/kit/kit.ts'
import { scansDuring } from '../../../../../../test/kit/scans.ts'
import { snapshotOf } from '../../../../../../test/kit/snapshot.ts'
import { ANONYMOUS } from '../../../../../core/identity.ts'
import { SqlCache } from '../../../../../db/rows/sql-cache.ts'
import { viewerOf } from '../../../../../db/schema/viewer.ts'
import { Candidates } from '../../../../../db/search/candidates.ts'
import { listStatement } from '../../list.ts'

const api = await startServer({ config: { 'ai.embedding_provider': 'hash' } })
const ana = await api.signUp('ana@example.com')
const bo = await api.signUp('bo@example.com')
await api.sql(`
  create table notes (id int primary key, owner uuid, title varchar(80), body text, code char(3), kind text, meaning real[]);
  insert into notes select i,
      case when i % 100 = 0 then '${ana.user.id}'::uuid else '${bo.user.id}'::uuid end,
      'note ' || i, case when i % 50 = 0 then 'a rare walrus number ' || i else 'plain words only' end, 'abc', 'k' || i % 3
    from generate_series(1, 6000) i;
  create table owned (like notes including all);
  insert into owned select * from notes;
  alter table owned enable row level security;
  create policy own on owned using (owner = svc.uid())`)
for (const table of ['notes', 'owned']) {
  for (const method of ['fulltext', 'trigram']) {
    const made = await api.call('POST /api/admin/search/indexes', { as: 'admin', json: { table, method } })
    assert.equal(made.status, 201, JSON.stringify(made.body))
  }
}

const search = (table: string, query: Record<string, string>, as?: string) =>
  api.call(`GET /api/collections/${table}?${new URLSearchParams(query)}`, as === undefined ? {} : { as })

const totals = ({ status, body }: Answer): unknown[] => {
  assert.equal(status, 200, JSON.stringify(body))
  return [body.totalItems, body.items.length, body.facets]
}

test('the statement of a search walks the index, also when its plan is kept', async () => {
  const schema = await snapshotOf(api.databaseUrl)
  const table = schema.tables.get('public.notes')
  assert.ok(table)
  const means = { candidates: new Candidates(''), textSearchConfig: { schema: 'pg_catalog', name: 'english' } }
  const place = { schema, table, viewer: viewerOf(ANONYMOUS) }
  const query = { search: 'walrus', highlight: 'true', facets: 'kind' }
  const { text, values } = listStatement(new SqlCache(), query, place, means).statement.render()
  await api.sql('set plan_cache_mode = force_generic_plan')
  await api.sql(`prepare search as ${text}`)
  const plan = await api.sql(`explain execute search(${values.map((value) => `'${String(value)}'`).join()})`)
  assert.match(plan.map((row) => Object.values(row as object)[0]).join('\n'), /Bitmap Index Scan on idx_notes_fulltext/)
})

test('under an owner policy a search uses the index, and finds, counts and marks visible rows alone', async () => {
  const query = { search: 'walrus', facets: 'owner', highlight: 'true', perPage: '5' }
  const mine = await scansDuring(api, 'idx_owned_fulltext', () => search('owned', query, ana.token))
  assert.deepEqual(totals(mine), [60, 5, { owner: [{ value: ana.user.id, count: 60 }] }])
  assert.match(mine.body.items[0]._highlight, /<b>walrus<\/b>/)
  assert.deepEqual(totals(await search('owned', query, bo.token)), [
    60,
    5,
    { owner: [{ value: bo.user.id, count: 60 }] },
  ])
  assert.deepEqual(totals(await search('owned', query)), [0, 0, { owner: [] }])
  assert.deepEqual(totals(await search('notes', query)).slice(0, 2), [120, 5])
})

test('exports and searches by words and meaning use the index under a policy too', async () => {
  const lines = await scansDuring(api, 'idx_owned_fulltext', async () => {
    const { status, text } = await api.call('GET /api/collections/owned/export.ndjson?search=walrus&fields=owner', {
      as: ana.token,
    })
    assert.equal(status, 200, text)
    return text.trim().split('\n')
  })
  assert.deepEqual([lines.length, new Set(lines)], [60, new Set([`{"owner":"${ana.user.id}"}`])])
  const query = { search: 'walrus', semantic: 'true', vector_column: 'meaning', perPage: '100' }
  const fused = await scansDuring(api, 'idx_owned_fulltext', () => search('owned', query, ana.token))
  assert.deepEqual([fused.status, fused.body.totalItems], [200, 60])
})

test('similar words are found by their index, with and without a policy', async () => {
  const query = { search: 'walruss', fuzzy: 'true', typo_threshold: '0.6', skipTotal: 'false' }
  const all = await scansDuring(api, 'idx_notes_trigram', () => search('notes', query))
  assert.equal(all.body.totalItems, 120)
  const mine = await scansDuring(api, 'idx_owned_trigram', () => search('owned', query, ana.token))
  assert.equal(mine.body.totalItems, 60)
})

test('a column that may not be read is neither searched nor shown, with an index over it too', async () => {
  await api.sql(`
    create table secrets (id int primary key, title text, secret text);
    insert into secrets values (1, 'open walrus', 'hidden needle'), (2, 'open needle', 'x'), (3, 'nothing', 'walrus needle');
    alter table secrets enable row level security;
    create policy everyone on secrets using (true);
    revoke select on secrets from svc_anon, svc_authenticated;
    grant select (id, title) on secrets to svc_anon, svc_authenticated`)
  const json = { table: 'secrets', method: 'fulltext' }
  assert.equal((await api.call('POST /api/admin/search/indexes', { as: 'admin', json })).status, 201)
  const found = async (text: string) => {
    const { body } = await search('secrets', { search: text, highlight: 'true' })
    return body.items.map((item: { id: number; _highlightResult: object }) => [
      item.id,
      Object.keys(item._highlightResult),
    ])
  }
  assert.deepEqual(await found('needle'), [[2, ['title']]])
  assert.deepEqual(await found('walrus -needle'), [[1, ['title']]])
  // Nor do grants of columns reach the rows that an index found past a policy.
  await api.sql('alter table secrets drop column secret cascade; alter table secrets add secret int')
  assert.equal((await api.call('POST /api/admin/search/indexes', { as: 'admin', json })).status, 201)
  await eventually(async () => assert.equal((await search('secrets', { filter: 'secret = 1' })).status, 400))
  assert.deepEqual(await found('needle'), [[2, ['title']]])
  const refused = await search('secrets', { facets: 'secret' })
  assert.deepEqual([refused.status, refused.body.message], [400, 'unknown column "secret" in facets parameter'])
})

test('more matches than can be named, and rows of tables that inherit, are found all the same', async () => {
  await api.sql(`
    create table crowd (id int primary key, title text);
    insert into crowd select i, 'walrus' from generate_series(1, 100001) i;
    create table parent (id int primary key, title text);
    create table child () inherits (parent);
    insert into parent values (1, 'walrus'); insert into child values (2, 'walrus');
    grant select on child to svc_anon, svc_authenticated;
    alter table crowd enable row level security; create policy few on crowd using (id > 99990);
    alter table parent enable row level security; create policy all_of_it on parent using (true)`)
  for (const table of ['crowd', 'parent']) {
    const json = { table, method: 'fulltext' }
    assert.equal((await api.call('POST /api/admin/search/indexes', { as: 'admin', json })).status, 201)
  }
  assert.equal((await search('crowd', { search: 'walrus' })).body.totalItems, 11)
  assert.equal((await search('parent', { search: 'walrus' })).body.totalItems, 2)
})

test('nobody but the server learns where rows are', async () => {
  await api.sql(`
    create function ask(key text) returns tid[] language sql as
      $$ select svc.candidates(key, 'owned'::regclass, 'true', '{}', 10, null) $$`)
  for (const key of ['', 'x']) {
    const { status } = await api.call('POST /api/rpc/ask', { as: ana.token, json: { key } })
    assert.equal(status, 403)
  }
})
