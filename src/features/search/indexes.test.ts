import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutVirtualColumns } from '../../../test/kit/cluster.ts'
import { type Answer, eventually, startServer } from '../../../test/kit/kit.ts'
import { scansDuring } from '../../../test/kit/scans.ts'
import { openConnection } from '../../db/protocol/driver.ts'

const api = await startServer()
const asAdmin = { as: 'admin' }
const told = ({ status, body }: Answer) => `${status} ${body.message}`
const build = (json: object, server = api) => server.call('POST /api/admin/search/indexes', { ...asAdmin, json })
const drop = (name: string) => api.call(`DELETE /api/admin/search/indexes/${name}`, asAdmin)
const listed = async () => (await api.call('GET /api/admin/search/indexes', asAdmin)).body

await api.sql(`
  create table notes (id int primary key, title varchar(80), body text, code char(3), kind text);
  insert into notes select i,
      'note ' || i, case when i % 50 = 0 then 'a rare walrus number ' || i else 'plain words only' end, 'abc', 'k' || i % 3
    from generate_series(1, 6000) i;
  create table numbers (id int primary key);
  create view seen as select * from notes;
  analyze`)

test('indexes are built, listed, built again without effect, and dropped', async () => {
  const made = await build({ table: 'notes', method: 'fulltext' })
  assert.deepEqual(
    [made.status, made.body],
    [201, { index_name: 'idx_notes_fulltext', method: 'fulltext', table: 'notes' }],
  )
  assert.equal((await build({ table: 'notes', method: 'fulltext' })).status, 201)
  const similar = await build({ table: 'notes', schema: 'public', method: 'trigram', index_name: 'notes_like' })
  assert.deepEqual(similar.body, { index_name: 'notes_like', method: 'trigram', table: 'notes' })
  assert.equal((await build({ table: 'notes', method: 'trigram', index_name: 'notes_like' })).status, 201)
  const { indexes, building } = await listed()
  assert.deepEqual(building, [])
  assert.deepEqual(
    indexes.map(({ definition, ...index }: { definition: string }) => index),
    [
      { name: 'idx_notes_fulltext', schema: 'public', table: 'notes', method: 'fulltext' },
      { name: 'notes_like', schema: 'public', table: 'notes', method: 'trigram' },
    ],
  )
  assert.match(indexes[0].definition, /USING gin \(svc\.search_vector\('english'::regconfig/)
  assert.equal(
    told(await build({ table: 'notes', method: 'trigram', index_name: 'idx_notes_fulltext' })).slice(0, 3),
    '409',
  )
  assert.equal((await build({ table: 'notes', method: 'fulltext', index_name: 'spare' })).status, 201)
  assert.equal((await drop('spare')).status, 204)
  assert.equal(told(await drop('spare')), '404 index not found')
  assert.equal(told(await drop('notes_pkey')), '404 index not found')
})

test('both methods have names of their own on a table with the longest name', async () => {
  const table = 'é'.repeat(31)
  await api.sql(`create table "${table}" (id int primary key, v text)`)
  const names = []
  for (const method of ['fulltext', 'trigram']) {
    const { status, text, body } = await build({ table, method })
    assert.equal(status, 201, text)
    names.push(body.index_name)
  }
  assert.deepEqual(names, [`idx_${'é'.repeat(25)}_fulltext`, `idx_${'é'.repeat(25)}_trigram`])
  for (const name of names) assert.equal((await drop(encodeURIComponent(name))).status, 204)
})

test('what cannot be indexed is refused in the words of the contract', async () => {
  assert.equal(told(await build({ method: 'fulltext' })), '400 table is required')
  assert.equal(told(await build({ table: 'notes', method: 'btree' })), '400 method must be fulltext or trigram')
  assert.equal(told(await build({ table: 'numbers', method: 'fulltext' })), '400 table has no text columns')
  assert.equal(told(await build({ table: 'nowhere', method: 'trigram' })), '404 table not found')
  assert.equal(
    told(await build({ table: 'notes', method: 'trigram', index_name: 'a b' })),
    '400 invalid identifier: a b',
  )
  assert.equal((await build({ table: 'seen', method: 'fulltext' })).status, 400)
  assert.equal((await api.call('GET /api/admin/search/indexes')).status, 401)
})

test('a text column that is computed when it is read is searched by the index too', {
  skip: withoutVirtualColumns,
}, async () => {
  const query = `create table people (id int primary key, first text, last text not null, email text,
      name text generated always as (coalesce(first || ' ', '') || upper(last)) virtual);
    insert into people select i, 'f' || i, 'l' || i from generate_series(1, 3000) i; analyze people`
  assert.equal((await api.call('POST /api/admin/sql', { ...asAdmin, json: { query } })).status, 200)
  for (const method of ['fulltext', 'trigram', 'fulltext', 'trigram'])
    assert.equal(told(await build({ table: 'people', method })), '201 undefined')
  const find = (query: string) => api.call(`GET /api/collections/people?${query}`)
  const found = await scansDuring(api, 'idx_people_fulltext', () => find('search=F77%20L77&fields=id,name'))
  assert.deepEqual(found.body.items, [{ id: 77, name: 'f77 L77' }])
  const similar = await scansDuring(api, 'idx_people_trigram', () => find('search=L77x&fuzzy=true&typo_threshold=0.5'))
  assert.equal(similar.body.items[0].id, 77)
  const { body } = await api.call('GET /api/schema')
  const name = body.tables['public.people'].columns.find((column: { name: string }) => column.name === 'name')
  assert.equal(name.default, undefined)
})

test('a broken leftover is built anew', async () => {
  await api.sql(`
    create table pages (id int primary key, text text);
    insert into pages values (1, 'one');
    create index idx_pages_fulltext on pages (id);
    update pg_index set indisvalid = false where indexrelid = 'idx_pages_fulltext'::regclass`)
  assert.equal((await build({ table: 'pages', method: 'fulltext' })).status, 201)
  const [pages] = (await listed()).indexes.filter(({ table }: { table: string }) => table === 'pages')
  assert.match(pages.definition, /USING gin \(svc\.search_vector/)
})

test('a build that fails halfway leaves no index behind, and can be asked for again', async () => {
  const writer = await openConnection({ url: api.databaseUrl })
  const invalid = () =>
    api.sql('select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid where not i.indisvalid')
  await api.sql('create table letters (id int primary key, text text)')
  // A build waits for every transaction that may still see the table without the index.
  await writer.query('begin')
  await writer.query(`insert into letters values (1, 'dear')`)
  const first = build({ table: 'letters', method: 'fulltext' })
  await eventually(async () => assert.deepEqual(await invalid(), [{ relname: 'idx_letters_fulltext' }]))
  await api.sql(`select pg_cancel_backend(pid) from pg_stat_progress_create_index where datname = current_database()`)
  await writer.query('commit')
  await writer.end()
  assert.ok((await first).status >= 500)
  assert.deepEqual(
    [await invalid(), await api.sql(`select to_regclass('idx_letters_fulltext') as made`)],
    [[], [{ made: null }]],
  )
  assert.equal((await build({ table: 'letters', method: 'fulltext' })).status, 201)
})

test('without pg_trgm similarity is refused in the words of the contract, until it can be had', async () => {
  const other = await startServer()
  await other.sql(`
    create table notes (id int primary key, title text);
    insert into notes values (1, 'walrus');
    create function svc.refuse_extension() returns event_trigger language plpgsql as $$ begin raise 'not available'; end $$;
    create event trigger refuse_extension on ddl_command_start when tag in ('CREATE EXTENSION')
      execute function svc.refuse_extension()`)
  const missing = '400 fuzzy search is unavailable because pg_trgm is not installed'
  const fuzzy = () => other.call('GET /api/collections/notes?search=walruss&fuzzy=true')
  assert.equal(told(await fuzzy()), missing)
  assert.equal(told(await build({ table: 'notes', method: 'trigram' }, other)), missing)
  const exported = await other.call('GET /api/collections/notes/export.json?search=walruss&fuzzy=true')
  assert.equal(told(exported), missing)
  assert.equal((await other.call('GET /api/collections/notes?search=walrus')).body.totalItems, 1)
  await other.sql('drop event trigger refuse_extension')
  assert.equal((await fuzzy()).body.totalItems, 1)
  assert.equal((await build({ table: 'notes', method: 'trigram' }, other)).status, 201)
})

test('one build of a table at a time over all processes, and its progress is told', async () => {
  const other = await startServer({ on: api })
  const writer = await openConnection({ url: api.databaseUrl })
  await writer.query('begin')
  await writer.query(`update notes set kind = 'k9' where id = 1`)
  const first = build({ table: 'notes', method: 'fulltext', index_name: 'slow_one' })
  await eventually(async () => {
    const { building } = await listed()
    assert.deepEqual([building[0]?.name, building[0]?.table], ['slow_one', 'notes'])
    assert.equal(typeof building[0].phase, 'string')
    assert.deepEqual([typeof building[0].done, typeof building[0].total], ['number', 'number'])
  })
  for (const server of [api, other]) {
    assert.equal(
      told(await build({ table: 'notes', method: 'trigram', index_name: 'second' }, server)),
      '409 index build already in progress',
    )
  }
  await writer.query('commit')
  await writer.end()
  assert.equal((await first).status, 201)
  assert.deepEqual((await listed()).building, [])
  assert.equal((await drop('slow_one')).status, 204)
})
