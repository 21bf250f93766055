import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { type Answer, startServer } from '../kit/kit.ts'

const api = await startServer({ config: { 'database.max_conns': 4 } })
await api.sql(`
  create table nodes (id int primary key, parent_id int references nodes, label text);
  insert into nodes values (0, null, 'root');
  insert into nodes select i, 0, repeat('x', 400) from generate_series(1, 1000) i;
  create index on nodes (parent_id);
  create table texts (id int primary key, n int, body text);
  insert into texts select i, i, i || repeat('x', 1000) from generate_series(1, 100) i;
  analyze;
`)
const ask = (query: string) => api.call('POST /api/graphql', { json: { query } })
const repeated = (n: number, part: (i: number) => string) => Array.from({ length: n }, (_, i) => part(i)).join(' ')

const refusal = ({ status, body }: Answer) => [status, body.error ?? body.errors?.[0].extensions.error]
const TOO_LARGE = [413, 'response_too_large']
const TOO_LARGE_GRAPHQL = [200, 'response_too_large']

const deep = 'parent { nodes { parent { nodes { label } } } }'

test('lists within lists are refused before PostgreSQL has built more than an answer may hold', async () => {
  assert.deepEqual(refusal(await ask(`{ nodes { ${deep} } }`)), TOO_LARGE_GRAPHQL)
  const rows = await api.sql('select pid::text from pg_stat_activity where datname = current_database()')
  const pids = new Set(rows.map(({ pid }) => pid))
  const peaks = readdirSync('/proc')
    .filter((name) => pids.has(name))
    .map((pid) => Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024)
  assert.ok(peaks.length > 0 && Math.max(...peaks) < 400, `MB: ${peaks}`)
  // From here on an answer holds 64 kB, which takes less time.
  await api.sql(`create or replace aggregate svc.answer_bytes(integer)
    (sfunc = pg_catalog.date_pli, stype = date, initcond = '5874718-07-28')`)
})

test('it does not matter how lists are nested, aliased and paged', async () => {
  const wide = `{ nodes(where: {id: {_eq: 1}}) { ${repeated(40, (i) => `a${i}: ${deep}`)} } }`
  assert.deepEqual(refusal(await ask(wide)), TOO_LARGE_GRAPHQL)
  for (const page of ['page=1', 'cursor=']) {
    const list = await api.call(`GET /api/collections/nodes?expand=parent.nodes.parent&perPage=20&${page}`)
    assert.deepEqual(refusal(list), TOO_LARGE, page)
  }
})

test('long lists of large rows are refused too, and so is what writes would answer', async () => {
  const lists = ['perPage=500', 'perPage=500&cursor=', 'facets=body,n', 'aggregate=count&group=body,id&perPage=500']
  for (const query of lists)
    assert.deepEqual(refusal(await api.call(`GET /api/collections/texts?${query}`)), TOO_LARGE, query)
  assert.deepEqual(refusal(await ask('{ texts { body } }')), TOO_LARGE_GRAPHQL)
  const all = await ask('mutation { update_texts(where: {}, _inc: {n: 1}) { affected_rows returning { body } } }')
  assert.deepEqual(refusal(all), TOO_LARGE_GRAPHQL)
  const operations = Array.from({ length: 100 }, (_, i) => ({ method: 'update', id: i + 1, body: { n: 0 } }))
  assert.deepEqual(refusal(await api.call('POST /api/collections/texts/batch', { json: { operations } })), TOO_LARGE)
  assert.deepEqual(await api.sql('select n from texts where id <> n'), [])
})

test('what is within the bound is answered whole', async () => {
  const { body } = await ask('{ nodes(limit: 2) { id parent { id } nodes(limit: 3) { id nodes { id } } } }')
  assert.deepEqual(body.data.nodes, [
    { id: 0, parent: null, nodes: [1, 2, 3].map((id) => ({ id, nodes: [] })) },
    { id: 1, parent: { id: 0 }, nodes: [] },
  ])
  const page = await api.call('GET /api/collections/nodes?expand=nodes&perPage=1&filter=id>0')
  assert.deepEqual(page.body.items[0].expand.nodes, [])
  for (const how of ['page=1', 'cursor=']) {
    const texts = await api.call(`GET /api/collections/texts?perPage=51&${how}`)
    assert.equal(texts.body.items.length, 51)
  }
})

test('a row does not repeat a column, nor an operation its relations, without end', async () => {
  const message = async (query: string) => (await ask(query)).body.errors[0].message
  const body = 'column "body" is selected more than 50 times in a row'
  assert.equal(await message(`{ texts { ${repeated(51, (i) => `a${i}: body`)} } }`), body)
  const label = 'column "label" is selected more than 50 times in a row'
  assert.equal(await message(`{ nodes { ${repeated(51, (i) => `a${i}: parent { label }`)} } }`), label)
  const list = `nodes { ${repeated(19, (i) => `a${i}: nodes { id }`)} }`
  assert.equal(await message(`{ ${repeated(16, (i) => `r${i}: ${list}`)} }`), 'query has more than 300 relations')
})

test('relations in conditions are counted before PostgreSQL plans them', async () => {
  const chain = (n: number, path: string) => Array.from({ length: n }, (_, i) => `${path}=${i}`).join(' and ')
  const list = (filter: string, more = '') =>
    api.call(`GET /api/collections/nodes?filter=${encodeURIComponent(filter)}${more}`)
  assert.equal((await list(chain(50, 'parent.id'))).status, 200)
  const first = await api.call('GET /api/collections/nodes?sort=parent_id,label,-id&cursor=&perPage=1')
  const cursor = encodeURIComponent(first.body.nextCursor)
  for (const [filter, more] of [
    [chain(51, 'parent.id'), ''],
    [chain(17, 'parent.parent.parent.id'), ''],
    [chain(360, 'parent.nodes.id'), ''],
    [chain(50, 'parent.id'), `&cursor=${cursor}&sort=parent_id,label,-id`],
    [chain(50, 'parent.id'), '&facets=id,parent_id,label'],
  ] as const) {
    assert.deepEqual(
      refusal(await list(filter, more)),
      [400, 'invalid_filter'],
      `${filter.slice(0, 30)} ${more.slice(0, 20)}`,
    )
  }
  const where = (n: number) => `{ nodes(where: {_and: [${repeated(n, (i) => `{parent: {id: {_eq: ${i}}}}`)}]}) { id } }`
  assert.equal((await ask(where(50))).body.errors, undefined)
  assert.equal((await ask(where(51))).body.errors[0].message, 'where has more than 50 relations')
})
