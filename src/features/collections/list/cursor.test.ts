import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { type InProcessServer, startServer } from '../../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql(`
    create table posts (id int primary key, title text, views int, secret text, at timestamptz not null default now());
    insert into posts select i, 'title ' || i % 3, nullif(i % 4, 0), 'hush' from generate_series(1, 10) i;
    create table others as select * from posts;
    alter table others add primary key (id);
    create table keyless (v int);
    create table big (id int primary key, v int);
    insert into big select i, i % 2 from generate_series(1, 5000) i;
    analyze big;
  `)
})

type Page = { items: Record<string, unknown>[]; perPage: number; nextCursor: string | null }
const page = async (path: string, query: Record<string, string>): Promise<Page> => {
  const { status, body } = await api.call(`GET /api/collections/${path}?${new URLSearchParams(query)}`)
  assert.equal(status, 200, JSON.stringify(body))
  return body
}
const refusal = async (path: string, query: Record<string, string>) => {
  const { status, body } = await api.call(`GET /api/collections/${path}?${new URLSearchParams(query)}`)
  return [status, body.message]
}

test('pages follow each other to the end, and keys need not be among the fields', async () => {
  const ids: unknown[] = []
  let cursor: string | null = ''
  const pages: number[] = []
  while (cursor !== null) {
    const got: Page = await page('posts', { cursor, perPage: '4', sort: '-views,title', fields: 'secret,id' })
    assert.deepEqual(Object.keys(got), ['items', 'perPage', 'nextCursor'])
    assert.deepEqual(Object.keys(got.items[0] ?? {}), ['secret', 'id'])
    ids.push(...got.items.map(({ id }) => id))
    pages.push(got.items.length)
    cursor = got.nextCursor
  }
  assert.deepEqual(pages, [4, 4, 2])
  const all = await page('posts', { perPage: '50', sort: '-views,title' })
  assert.deepEqual(
    ids,
    all.items.map(({ id }) => id),
  )
})

test('a page that ends with the last row says so', async () => {
  assert.equal((await page('posts', { cursor: '', perPage: '10' })).nextCursor, null)
  assert.deepEqual(await page('posts', { cursor: '', filter: 'id > 99' }), { items: [], perPage: 20, nextCursor: null })
})

test('filter, expand and the size of pages may change on the way, table and sort may not', async () => {
  const { nextCursor } = await page('posts', { cursor: '', perPage: '2', sort: 'title' })
  assert.ok(nextCursor)
  const rest = await page('posts', { cursor: nextCursor, perPage: '3', sort: ' title', filter: 'id > 5' })
  assert.deepEqual(
    rest.items.map(({ id }) => id),
    [9, 7, 10],
  )
  const invalid = [400, 'invalid cursor']
  assert.deepEqual(await refusal('posts', { cursor: nextCursor }), invalid)
  assert.deepEqual(await refusal('posts', { cursor: nextCursor, sort: '-title' }), invalid)
  assert.deepEqual(await refusal('others', { cursor: nextCursor, sort: 'title' }), invalid)
})

test('a cursor that this service did not make is refused', async () => {
  const { nextCursor } = await page('posts', { cursor: '', perPage: '2' })
  assert.ok(nextCursor)
  const changed = `${nextCursor.slice(0, -2)}${nextCursor.endsWith('AA') ? 'BB' : 'AA'}`
  for (const cursor of [changed, 'x', 'v1.x.y', nextCursor.slice(0, 30), `${nextCursor}.z.w`, '%', '['.repeat(3000)])
    assert.deepEqual(await refusal('posts', { cursor }), [400, 'invalid cursor'], cursor)
})

test('what cannot go with a cursor is named', async () => {
  const cannot = (name: string) => [400, `cursor cannot be combined with "${name}"`]
  assert.deepEqual(await refusal('posts', { cursor: '', page: '1' }), cannot('page'))
  assert.deepEqual(await refusal('posts', { cursor: '', search: 'x' }), cannot('search'))
  assert.deepEqual(await refusal('posts', { cursor: '', nearest: '[1]' }), cannot('nearest'))
  assert.deepEqual(await refusal('keyless', { cursor: '' }), [400, 'cursor requires a primary key'])
  await api.sql(`insert into posts (id, title) values (50, repeat('x', 5000)), (51, 'y')`)
  assert.equal((await refusal('posts', { cursor: '', sort: 'title', filter: 'id >= 50', perPage: '1' }))[0], 400)
  await api.sql('delete from posts where id >= 50')
})

test('another server of the same service takes the cursor', async () => {
  const { nextCursor } = await page('posts', { cursor: '', perPage: '9' })
  const other = await startServer({ on: api })
  const { body } = await other.call(`GET /api/collections/posts?cursor=${nextCursor}`)
  assert.deepEqual(
    body.items.map(({ id }: { id: number }) => id),
    [10],
  )
})

test('totals are counted, guessed or left out', async () => {
  const total = async (path: string, query: Record<string, string>) => {
    const { items: _, ...rest } = (await page(path, query)) as Record<string, unknown>
    return rest
  }
  const counted = { page: 1, perPage: 20, totalItems: 5000, totalPages: 250 }
  assert.deepEqual(await total('big', {}), counted)
  assert.deepEqual(await total('big', { total: 'exact', skipTotal: 'true' }), counted)
  assert.deepEqual(await total('big', { total: 'none' }), { page: 1, perPage: 20, totalItems: -1, totalPages: -1 })
  assert.deepEqual(await total('big', { total: 'estimate' }), { ...counted, totalIsEstimate: true })
  const half = await total('big', { total: 'estimate', filter: 'v = 1' })
  assert.equal(half['totalIsEstimate'], true)
  assert.ok(Math.abs(Number(half['totalItems']) - 2500) < 250)
  assert.deepEqual(await total('big', { total: 'estimate', filter: 'id <= 999' }), {
    page: 1,
    perPage: 20,
    totalItems: 999,
    totalPages: 50,
  })
  assert.equal((await total('posts', { total: 'estimate' }))['totalIsEstimate'], undefined)
  const { nextCursor: _, ...rest } = await total('big', { cursor: '', total: 'exact' })
  assert.deepEqual(rest, { perPage: 20, totalItems: 5000, totalPages: 250 })
  assert.equal((await total('big', { cursor: '', total: 'estimate' }))['totalIsEstimate'], true)
  assert.deepEqual(await refusal('big', { total: 'some' }), [400, 'total must be exact, estimate or none'])
})
