import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutExtensions } from '../../../../../test/kit/cluster.ts'
import { type Answer, eventually, startServer, type TestServer } from '../../../../../test/kit/kit.ts'
import { scansDuring } from '../../../../../test/kit/scans.ts'
import { overhearStatements } from '../../../../../test/kit/statements.ts'

type Query = Record<string, string>
type Item = { id: number; _distance: number }

const lister =
  (api: TestServer) =>
  (query: Query, table = 'notes1', as?: string): Promise<Answer> =>
    api.call(`GET /api/collections/${table}?${new URLSearchParams(query)}`, as === undefined ? {} : { as })
const repeated = (api: TestServer, table: string): Promise<Answer> =>
  api.call(`GET /api/collections/${table}?vector_column=meaning&nearest=1&nearest=0&perPage=20&perPage=3&nearest=0`)
const told = ({ status, body }: Answer) => `${status} ${body.message}`
const ids = ({ status, body }: Answer): number[] => {
  assert.equal(status, 200, JSON.stringify(body))
  return body.items.map(({ id }: Item) => id)
}
const distances = ({ body }: Answer): number[] =>
  body.items.map(({ _distance }: Item) => Math.round(_distance * 1e4) / 1e4)

/** What must hold for every kind of column. */
async function promises(list: ReturnType<typeof lister>, column: Query, table: string, dimensions?: number) {
  const near = (query: Query) => list({ ...column, ...query }, table)
  const nearest = await near({ nearest: '[1,0,0]' })
  assert.deepEqual(ids(nearest), [1, 2, 3, 4])
  assert.deepEqual(distances(nearest), [0, 0.2929, 1, 2])
  const { page, perPage, totalItems, totalPages } = nearest.body
  assert.deepEqual({ page, perPage, totalItems, totalPages }, { page: 1, perPage: 20, totalItems: 4, totalPages: 1 })
  const l2 = await near({ nearest: '[1,0,0]', distance: 'l2', perPage: '3', page: '7', sort: '-id' })
  assert.deepEqual([ids(l2), distances(l2), l2.body.page, l2.body.totalItems], [[1, 2, 5], [0, 1, 1], 1, 3])
  for (const uncounted of [{ skipTotal: 'true' }, { total: 'none' }] as Query[]) {
    for (const perPage of ['2', '20']) {
      const { body } = await near({ nearest: '[1,0,0]', perPage, ...uncounted })
      assert.deepEqual([body.items.length, body.totalItems, body.totalPages], [Math.min(4, Number(perPage)), -1, -1])
    }
  }
  for (const written of ['1,0,0', ' 1 , 0.0 ,0e0 '])
    assert.deepEqual(ids(await near({ nearest: written })), [1, 2, 3, 4])
  const product = await near({ nearest: '[1,0,0]', distance: 'inner_product', perPage: '2' })
  assert.deepEqual(
    [ids(product), distances(product)],
    [
      [1, 2],
      [-1, -1],
    ],
  )
  const some = await near({ nearest: '[1,0,0]', filter: 'id > 1 and id < 4', fields: 'title', expand: 'owner' })
  assert.deepEqual(some.body.items[0], {
    title: 'two',
    expand: { owner: { id: 1, name: 'ana' } },
    _distance: some.body.items[0]._distance,
  })
  assert.equal(some.body.totalItems, 2)
  const none = await near({ nearest: '[1,0,0]', filter: 'id > 100' })
  assert.deepEqual([none.body.items, none.body.totalItems, none.body.totalPages], [[], 0, 0])

  for (const bad of [
    '',
    '1',
    '{}',
    'x',
    '[1,',
    '["1"]',
    '[null]',
    '[1e999,0,0]',
    '[NaN,0,0]',
    '[Infinity,0,0]',
    '[[1,0,0]]',
    '1,',
    '1,,0',
    '1,x,0',
    '1],[0,0',
    '"1",0,0',
    '[1,0],0',
  ]) {
    assert.equal(told(await near({ nearest: bad })), '400 nearest must be a JSON array of numbers', bad)
  }
  assert.equal(told(await near({ nearest: '[]' })), '400 nearest must not be empty')
  assert.equal(told(await near({ nearest: '[0,0,-0]' })), '400 zero vector has no cosine distance')
  assert.equal(told(await near({ nearest: '[1e300,0,0]' })), '400 invalid vector value')
  assert.equal(
    told(await near({ nearest: '[1,0,0]', distance: 'far' })),
    '400 distance must be cosine, l2 or inner_product',
  )
  assert.equal((await near({ nearest: '[0,0,0]', distance: 'l2' })).status, 200)
  const ones = (n: number) => `[${'1,'.repeat(n - 1)}1]`
  const [most, more] = [await near({ nearest: ones(16_000) }), await near({ nearest: ones(16_001) })]
  if (dimensions === undefined) {
    assert.deepEqual(ids(most), [])
    assert.equal(told(more), '400 invalid vector value')
  } else {
    assert.equal(told(most), `400 vector dimension mismatch: expected ${dimensions}, got 16000`)
    assert.equal(told(more), `400 vector dimension mismatch: expected ${dimensions}, got 16001`)
  }
}

/** Tables of their own for each type, so that no snapshot of the schema is behind. */
const tables = (type: string, n: number) => `
  create table if not exists owners (id int primary key, name text);
  insert into owners values (1, 'ana') on conflict do nothing;
  create table notes${n} (id int primary key, title text, owner_id int references owners, meaning ${type});
  create table plain${n} (id int primary key, title text);
  create table pairs${n} (id int primary key, a ${type}, b ${type});
  insert into notes${n} values (1, 'one', 1, ARRAY[1,0,0]), (2, 'two', 1, ARRAY[1,1,0]), (3, 'three', 1, ARRAY[0,1,0]),
    (4, 'four', 1, ARRAY[-1,0,0]), (5, 'five', 1, ARRAY[0,0,0]), (6, 'six', 1, null);`

test('plain arrays are searched on any PostgreSQL', async (t) => {
  const api = await startServer()
  const list = lister(api)
  for (const [n, type] of ['real[]', 'double precision[]'].entries()) {
    await t.test(type, async () => {
      await api.sql(tables(type, n))
      const notes = `notes${n}`
      await promises(list, { vector_column: 'meaning' }, notes)
      assert.equal(told(await list({ nearest: '[1,0,0]' }, notes)), '400 vector_column is required: one of meaning')
      assert.equal(told(await list({ nearest: '[1]' }, `pairs${n}`)), '400 vector_column is required: one of a, b')
      assert.equal(told(await list({ nearest: '[1]' }, `plain${n}`)), '400 no vector column on table')
      for (const vector_column of ['title', 'nope']) {
        assert.equal(
          told(await list({ nearest: '[1]', vector_column }, notes)),
          `400 column "${vector_column}" is not a vector column`,
        )
      }
      assert.deepEqual(ids(await list({ nearest: '[1,0]', vector_column: 'meaning' }, notes)), [])
      assert.deepEqual(ids(await repeated(api, notes)), [1, 2, 3])
    })
  }

  await t.test('rows that have no distance are left out, and harm nobody', async () => {
    await api.sql(`insert into notes1 values (11, 'short', 1, '{1,0}'), (12, 'holes', 1, '{1,null,0}'), (13, 'square', 1, '{{1,0,0}}'),
      (14, 'nan', 1, '{NaN,0,0}'), (15, 'infinite', 1, '{Infinity,0,0}'), (16, 'huge', 1, '{1e300,1e300,0}'),
      (17, 'tiny', 1, '{1e-300,1e-300,0}'), (18, 'empty', 1, '{}')`)
    for (const distance of ['cosine', 'l2', 'inner_product']) {
      const found = ids(await list({ nearest: '[1,0,0]', vector_column: 'meaning', distance }))
      const expected = distance === 'cosine' ? [1, 2, 3, 4] : [1, 2, 3, 4, 5, 17]
      assert.deepEqual(
        found.sort((a, b) => a - b),
        expected,
        distance,
      )
      assert.equal((await list({ nearest: '[1e-300,1e49,0]', vector_column: 'meaning', distance })).status, 200)
    }
  })

  await t.test('modes and parameters that exclude each other are refused', async () => {
    const vector_column = 'meaning'
    const both = '400 choose one of nearest, semantic_query, semantic'
    assert.equal(told(await list({ nearest: '[1]', semantic_query: 'x' })), both)
    assert.equal(told(await list({ nearest: '[1]', semantic: 'true' })), both)
    assert.equal(told(await list({ semantic_query: 'x', semantic: 'true', search: 'x' })), both)
    for (const name of ['fuzzy', 'typo_threshold', 'facets', 'highlight']) {
      const refused = await list({
        nearest: '[1,0,0]',
        vector_column,
        [name]: name === 'typo_threshold' ? '0.5' : 'false',
      })
      assert.equal(told(refused), `400 unsupported parameter "${name}" in vector mode`)
    }
    const missing = 'semantic search is not configured: no embedding provider available'
    assert.equal(told(await list({ semantic_query: 'x', vector_column })), `400 ${missing}`)
    assert.equal(told(await list({ semantic: 'true', search: 'x', vector_column })), `501 ${missing}`)
    assert.equal(told(await list({ semantic: 'maybe' })), '400 semantic parameter must be a boolean')
    assert.equal((await list({ semantic: 'true', perPage: '2' })).body.items.length, 2)
  })

  await t.test('a caller finds only rows and columns it may see', async () => {
    await api.sql(`
      create table secrets (id int primary key, owner uuid, meaning real[], hidden real[]);
      alter table secrets enable row level security;
      create policy own on secrets to svc_authenticated using (owner::text = current_setting('svc.user_id', true));
      revoke select on secrets from svc_authenticated, svc_anon;
      grant select (id, owner, meaning) on secrets to svc_authenticated`)
    const [ana, bo] = [await api.signUp('ana@example.com'), await api.signUp('bo@example.com')]
    await api.sql(`insert into secrets select i, case when i % 2 = 0 then '${ana.user.id}' else '${bo.user.id}' end::uuid, array[i, 1], array[i, 1]
      from generate_series(1, 10) i`)
    const near = { nearest: '[1,0]', distance: 'l2' }
    const seen = await list({ ...near, vector_column: 'meaning', perPage: '3' }, 'secrets', ana.token)
    assert.deepEqual([ids(seen), seen.body.totalItems], [[2, 4, 6], 3])
    const refused = await list({ ...near, vector_column: 'hidden' }, 'secrets', ana.token)
    assert.equal(told(refused), '400 column "hidden" is not a vector column')
    assert.equal(told(await list(near, 'secrets', ana.token)), '400 vector_column is required: one of meaning')
  })
})

test('columns of pgvector', { skip: withoutExtensions }, async (t) => {
  const api = await startServer({ postgres: 'extensions' })
  const list = lister(api)
  await api.sql('create extension vector')
  for (const [n, type] of ['vector(3)', 'halfvec(3)', 'vector'].entries()) {
    await t.test(type, async () => {
      await api.sql(tables(type, n))
      const notes = `notes${n}`
      await promises(list, {}, notes, type === 'vector' ? undefined : 3)
      const other = await list({ nearest: '[1,0]' }, notes)
      if (type === 'vector') assert.deepEqual(ids(other), [])
      else assert.equal(told(other), '400 vector dimension mismatch: expected 3, got 2')
      assert.equal(told(await list({ nearest: '[1]' }, `pairs${n}`)), '400 vector_column is required: one of a, b')
      if (type === 'halfvec(3)')
        assert.equal(told(await list({ nearest: '[70000,0,0]' }, notes)), '400 invalid vector value')
      assert.equal(told(await list({ nearest: '[1e-30,0,0]' }, notes)), '400 zero vector has no cosine distance')
      assert.equal(
        (await list({ nearest: '[3e38,3e38,3e38]', distance: 'l2' }, notes)).status,
        type === 'halfvec(3)' ? 400 : 200,
      )
    })
  }

  await t.test('an index is used, and filters and policies still leave full pages', async () => {
    const ana = await api.signUp('ana@example.com')
    await api.sql(`
      create table points (id int primary key, owner uuid, kind int, place vector(8));
      select setseed(0.5);
      insert into points select i, case when i % 100 = 0 then '${ana.user.id}'::uuid end, i % 50,
        array(select random() from generate_series(1, 8 + 0 * i))::vector from generate_series(1, 5000) i;
      alter table points enable row level security;
      create policy own on points to svc_authenticated using (owner::text = current_setting('svc.user_id', true));
      create policy all_seen on points to svc_anon using (true)`)
    const index = { table: 'points', column: 'place', method: 'hnsw', metric: 'l2' }
    assert.equal((await api.call('POST /api/admin/vector/indexes', { as: 'admin', json: index })).status, 201)
    await api.sql('analyze points')
    const scans = async () => {
      const [row] = await api.sql(
        `select idx_scan::int as n from pg_stat_user_indexes where indexrelname = 'idx_points_place_hnsw'`,
      )
      return Number(row?.n)
    }
    const near = { nearest: JSON.stringify(Array(8).fill(0.5)), distance: 'l2' }
    const before = await scans()
    const all = await list({ ...near, perPage: '100' }, 'points')
    assert.equal(all.body.items.length, 100)
    assert.deepEqual(
      distances(all),
      distances(all).sort((a, b) => a - b),
    )
    assert.equal((await list({ ...near, filter: 'kind = 7', perPage: '50' }, 'points')).body.items.length, 50)
    const own = await list({ ...near, perPage: '30' }, 'points', ana.token)
    assert.equal(own.body.items.length, 30)
    assert.ok(own.body.items.every((item: { owner: string }) => item.owner === ana.user.id))
    await eventually(async () => assert.ok((await scans()) > before))
  })

  await t.test('numbers are taken as the client writes them', async () => {
    const written = ' [ 1.0e0 ,\n0,\t-0.0 ] '
    for (const table of ['notes0', 'notes1', 'notes2']) {
      assert.deepEqual(ids(await list({ nearest: written }, table)), [1, 2, 3, 4])
    }
    assert.equal((await list({ nearest: '[1,1e-400,0]' }, 'notes0')).status, 200)
  })

  await t.test('a user who sees few of many rows gets the nearest of them, all of them and in order', async () => {
    const bo = await api.signUp('bo@example.com')
    await api.sql(`
      create index on points (owner);
      update points set owner = '${bo.user.id}' where id % 100 = 1; analyze points`)
    const near = JSON.stringify(Array(8).fill(0.5))
    const exact = await api.sql(
      `select id, place <-> '${near}' as d from points where owner = '${bo.user.id}' order by 2, 1`,
    )
    const own = await list({ nearest: near, distance: 'l2', perPage: '500' }, 'points', bo.token)
    assert.deepEqual(
      ids(own),
      exact.map(({ id }) => Number(id)),
    )
  })

  await t.test('a page that the first look of HNSW fills costs no more; deleted rows leave none short', async () => {
    await api.sql(`create table worn (id int primary key, place vector(8)) with (autovacuum_enabled = off);
      select setseed(0.75);
      insert into worn select i, array(select random() from generate_series(1, 8 + 0 * i))::vector
        from generate_series(1, 3000) i`)
    const index = { table: 'worn', column: 'place', method: 'hnsw', metric: 'l2' }
    assert.equal((await api.call('POST /api/admin/vector/indexes', { as: 'admin', json: index })).status, 201)
    await api.sql('analyze worn')
    const near = { nearest: JSON.stringify(Array(8).fill(0.5)), distance: 'l2' }
    const wire = await overhearStatements(api.databaseUrl)
    const nearest = lister(await startServer({ on: api, config: { 'database.url': wire.url } }))
    /** How the page was come by. A read that was held up is sent twice, so they are not counted. */
    const looks = async (query: Query): Promise<string[]> => {
      const heard = await wire.during(async () => {
        const page = await nearest({ ...near, ...query }, 'worn')
        assert.equal(ids(page).length, page.body.perPage)
      })
      const first = heard.some((text) => text.includes('svc_distance') && text.includes('case when pg_catalog.count'))
      const more = heard.some((text) => text.includes('hnsw.iterative_scan'))
      return [...(first ? ['first'] : []), ...(more ? ['more'] : [])]
    }
    assert.deepEqual(await looks({}), ['first'])
    assert.deepEqual(await looks({ perPage: '41' }), ['more'])
    assert.deepEqual(await looks({ filter: 'id > 10' }), ['more'])
    await api.sql(`delete from worn where id in (select id from worn order by place <-> '${near.nearest}' limit 500)`)
    assert.deepEqual(await looks({}), ['first', 'more'])
    // Until the server reads the schema anew, which it may do at any time.
    await eventually(async () => assert.deepEqual(await looks({}), ['more']))
    await api.sql('delete from worn where id not in (select id from worn order by id limit 7)')
    assert.equal(ids(await nearest(near, 'worn')).length, 7)
    await wire.close()
  })

  await t.test('IVFFlat finds most of what is nearest, and fills the page', async () => {
    await api.sql(`create table spots (id int primary key, kind int, place vector(8));
      select setseed(0.25);
      insert into spots select i, i / 50 % 100,
        array(select sin(i % 50 * k * 7) + random() / 2 from generate_series(1, 8) k)::vector from generate_series(1, 4000) i`)
    const index = { table: 'spots', column: 'place', method: 'ivfflat', metric: 'l2', lists: 60 }
    assert.equal((await api.call('POST /api/admin/vector/indexes', { as: 'admin', json: index })).status, 201)
    await api.sql('analyze spots')
    let found = 0
    for (const cluster of [3, 14, 25, 36, 47]) {
      const nearest = JSON.stringify(Array.from({ length: 8 }, (_, k) => Math.sin(cluster * (k + 1) * 7) + 0.4))
      // Not in the form that the index knows.
      const exact = await api.sql(`select id from spots order by (place <-> '${nearest}') + 0 limit 20`)
      const near = ids(
        await scansDuring(api, 'idx_spots_place_ivfflat', () =>
          list({ nearest, distance: 'l2', perPage: '20' }, 'spots'),
        ),
      )
      found += exact.filter(({ id }) => near.includes(Number(id))).length
    }
    assert.ok(found >= 90, `${found} of 100`)
    const few = await list({ nearest: JSON.stringify(Array(8).fill(0.5)), distance: 'l2', filter: 'kind = 7' }, 'spots')
    assert.equal(few.body.items.length, 20)
  })
})
