import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutExtensions } from '../../../test/kit/cluster.ts'
import { type Answer, eventually, startServer } from '../../../test/kit/kit.ts'

const told = ({ status, body }: Answer) => `${status} ${body.message}`
const asAdmin = { as: 'admin' }

test('without pgvector there is nothing to index, and the answer says so', async () => {
  const api = await startServer()
  await api.sql('create table notes (id int primary key, meaning real[])')
  const build = (json: object) => api.call('POST /api/admin/vector/indexes', { ...asAdmin, json })
  const asked = { table: 'notes', column: 'meaning', method: 'hnsw', metric: 'l2' }
  assert.equal(told(await build(asked)), '400 column "meaning" is not a vector column')
  assert.deepEqual((await api.call('GET /api/admin/vector/indexes', asAdmin)).body, { indexes: [] })
})

test('vector indexes', { skip: withoutExtensions }, async (t) => {
  const api = await startServer({ postgres: 'extensions' })
  const other = await startServer({ on: api })
  await api.sql(`
    create extension vector;
    create table notes (id int primary key, body text, meaning vector(3), short halfvec(3), loose vector, wide vector(2001));
    insert into notes select i, 'n' || i, array[i, 1, 2]::vector, array[i, 1, 2]::halfvec from generate_series(1, 500) i;
    create schema attic; create table attic.boxes (id int primary key, meaning vector(3));
    create view seen as select * from notes`)
  const build = (json: object, server = api) => server.call('POST /api/admin/vector/indexes', { ...asAdmin, json })
  const drop = (name: string) => api.call(`DELETE /api/admin/vector/indexes/${name}`, asAdmin)
  const indexes = async () => (await api.call('GET /api/admin/vector/indexes', asAdmin)).body.indexes
  const asked = { table: 'notes', column: 'meaning', method: 'hnsw', metric: 'cosine' }

  await t.test('are built, listed, built again without effect, and dropped', async () => {
    const made = await build(asked)
    assert.deepEqual(
      [made.status, made.body],
      [
        201,
        { index_name: 'idx_notes_meaning_hnsw', method: 'hnsw', metric: 'cosine', table: 'notes', column: 'meaning' },
      ],
    )
    assert.equal((await build(asked)).status, 201)
    const lists = {
      ...asked,
      column: 'short',
      method: 'ivfflat',
      metric: 'inner_product',
      lists: 7,
      index_name: 'by_ip',
    }
    assert.equal((await build(lists)).body.index_name, 'by_ip')
    const [first, second, ...rest] = await indexes()
    assert.deepEqual([first.name, first.schema, first.table, first.method], ['by_ip', 'public', 'notes', 'ivfflat'])
    assert.match(first.definition, /USING ivfflat \(short public.halfvec_ip_ops\) WITH \(lists='7'\)/)
    assert.match(second.definition, /USING hnsw \(meaning public.vector_cosine_ops\)/)
    assert.deepEqual(rest, [])
    assert.equal((await drop('by_ip')).status, 204)
    assert.equal((await drop('idx_notes_meaning_hnsw')).status, 204)
    assert.equal(told(await drop('idx_notes_meaning_hnsw')), '404 index not found')
    assert.equal(told(await drop('notes_pkey')), '404 index not found')
    assert.deepEqual(await indexes(), [])
  })

  await t.test('are refused in the words of the contract', async () => {
    assert.equal(told(await build({})), '400 table is required')
    assert.equal(told(await build({ ...asked, column: '' })), '400 column is required')
    assert.equal(told(await build({ ...asked, method: 'flat' })), '400 method must be hnsw or ivfflat')
    assert.equal(told(await build({ ...asked, metric: 'l7' })), '400 metric must be cosine, l2 or inner_product')
    assert.equal(told(await build({ ...asked, table: 'nowhere' })), '404 table not found')
    assert.equal(told(await build({ ...asked, table: 'boxes', schema: 'attic' })), '404 table not found')
    assert.equal(told(await build({ ...asked, column: 'body' })), '400 column "body" is not a vector column')
    assert.equal(told(await build({ ...asked, column: 'nope' })), '400 column "nope" is not a vector column')
    assert.equal(told(await build({ ...asked, index_name: 'x"; drop table notes' })).slice(0, 3), '400')
    assert.equal(told(await build({ ...asked, index_name: 'notes_pkey' })), '409 relation "notes_pkey" already exists')
    assert.equal(told(await build({ ...asked, index_name: 'seen' })), '409 relation "seen" already exists')
    assert.match(told(await build({ ...asked, column: 'wide' })), /^400 column cannot have more than 2000 dimensions/)
    assert.match(told(await build({ ...asked, column: 'loose' })), /^400 column does not have dimensions/)
    assert.match(told(await build({ ...asked, table: 'seen' })), /^400 cannot create index on relation "seen"/)
    assert.equal((await api.call('GET /api/admin/vector/indexes')).status, 401)
    assert.deepEqual(await indexes(), [])
    assert.deepEqual(
      await api.sql('select relname from pg_index join pg_class on oid = indexrelid where not indisvalid'),
      [],
    )
  })

  await t.test('are built by one process at a time; a broken one that was left behind is replaced', async () => {
    const blocker = await startServer({ on: api })
    // A build waits for every transaction that may still see the table without the index.
    await blocker.sql('begin')
    await blocker.sql('insert into notes (id) values (9999)')
    const first = build(asked)
    const building = 'select from pg_stat_progress_create_index where datname = current_database()'
    await eventually(async () => {
      assert.equal((await api.sql(building)).length, 1)
    })
    for (const server of [api, other])
      assert.equal(told(await build(asked, server)), '409 index build already in progress')
    await api.sql(
      `select pg_cancel_backend(pid) from pg_stat_activity
        where query like 'create index concurrently%' and pid <> pg_backend_pid() and datname = current_database()`,
    )
    await blocker.sql('rollback')
    assert.ok((await first).status >= 500)
    assert.deepEqual(
      await api.sql('select relname from pg_index join pg_class on oid = indexrelid where not indisvalid'),
      [],
    )
    await api.sql('create index idx_notes_meaning_hnsw on notes using hnsw (meaning vector_l2_ops)')
    await api.sql(`update pg_index set indisvalid = false where indexrelid = 'idx_notes_meaning_hnsw'::regclass`)
    assert.equal((await build(asked)).status, 201)
    const [made] = await indexes()
    assert.match(made.definition, /vector_cosine_ops/)
  })
})
