import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { type InProcessServer, startServer } from '../../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql(`
    create table sales (id int primary key, shop text, kind text, amount numeric, n bigint, f float8, at date, meta json, count int);
    insert into sales values
      (1, 'a', 'x', 0.1, 9223372036854775807, 1.5, '2026-01-01', '{}', 1), (2, 'a', 'y', 0.2, 9223372036854775807, 'NaN', '2026-01-02', '{}', 1),
      (3, 'b', 'x', null, 1, 2, null, null, 1), (4, null, 'x', 123456789012345678901234567890.123456789, 2, 3, '2025-01-01', null, 1);
    create table owned (id int primary key, owner text, v int);
    insert into owned values (1, 'me', 1), (2, 'you', 100);
    alter table owned enable row level security;
    create policy own on owned using (owner = 'me');
    create table halves (id int primary key, secret int);
    revoke select on halves from svc_anon; grant select (id) on halves to svc_anon;
  `)
})

const ask = (query: Record<string, string>, table = 'sales') =>
  api.call(`GET /api/collections/${table}?${new URLSearchParams(query)}`)
const items = async (query: Record<string, string>, table = 'sales') => {
  const { status, body } = await ask(query, table)
  assert.equal(status, 200, JSON.stringify(body))
  return body.items
}

test('without groups there is one item, also of no rows', async () => {
  const { body } = await ask({ aggregate: 'count,count_distinct(shop),min(at),max(at),max(kind)' })
  assert.deepEqual(body, {
    items: [{ count: 4, count_distinct_shop: 2, min_at: '2025-01-01', max_at: '2026-01-02', max_kind: 'y' }],
    page: 1,
    perPage: 20,
    totalItems: 1,
    totalPages: 1,
  })
  assert.deepEqual(await items({ aggregate: 'count,sum(amount)', filter: 'id > 99' }), [{ count: 0, sum_amount: null }])
})

test('sums keep all their digits', async () => {
  const { text } = await ask({ aggregate: 'sum(n),sum(amount),avg(n),sum(f)', filter: 'id <= 4' })
  assert.match(text, /"sum_n":18446744073709551617,/)
  assert.match(text, /"sum_amount":123456789012345678901234567890\.423456789,/)
  assert.match(text, /"sum_f":"NaN"/)
})

test('groups are sorted by columns or aggregates, and paged', async () => {
  assert.deepEqual(await items({ aggregate: 'count', group: 'shop' }), [
    { shop: 'a', count: 2 },
    { shop: 'b', count: 1 },
    { shop: null, count: 1 },
  ])
  const { body } = await ask({ aggregate: 'count', group: 'kind,shop', sort: '-count,-shop', perPage: '2', page: '2' })
  assert.deepEqual(
    [body.items, body.totalItems, body.totalPages],
    [
      [
        { kind: 'x', shop: 'a', count: 1 },
        { kind: 'y', shop: 'a', count: 1 },
      ],
      4,
      2,
    ],
  )
})

test('policies and column rights hold', async () => {
  assert.deepEqual(await items({ aggregate: 'count,sum(v)' }, 'owned'), [{ count: 1, sum_v: 1 }])
  const { status, body } = await ask({ aggregate: 'max(secret)' }, 'halves')
  assert.deepEqual([status, body.message], [400, 'unknown column "secret" in aggregate parameter'])
})

test('what makes no sense is 400', async () => {
  const cases: [Record<string, string>, string][] = [
    [{ aggregate: 'median(n)' }, 'unknown aggregate function: median'],
    [{ aggregate: 'constructor(n)' }, 'unknown aggregate function: constructor'],
    [{ aggregate: '' }, 'unknown aggregate function: '],
    [{ aggregate: 'sum(no)' }, 'unknown column "no" in aggregate parameter'],
    [{ aggregate: 'sum' }, 'unknown column "" in aggregate parameter'],
    [{ aggregate: 'count', group: 'no' }, 'unknown column "no" in group parameter'],
    [{ aggregate: 'sum(shop)' }, 'aggregate sum requires a numeric column'],
    [{ aggregate: 'avg(at)' }, 'aggregate avg requires a numeric column'],
    [{ aggregate: 'max(meta)' }, 'unsupported aggregate column "meta" with type "json"'],
    [{ aggregate: 'count', group: 'count' }, 'aggregate conflicts with column "count"'],
    [{ aggregate: 'count', sort: 'shop' }, 'unknown column "shop" in sort parameter'],
    [{ aggregate: 'count', expand: 'x' }, 'aggregate cannot be combined with "expand"'],
    [{ aggregate: 'count', fields: 'id' }, 'aggregate cannot be combined with "fields"'],
    [{ aggregate: 'count', search: 'x' }, 'aggregate cannot be combined with "search"'],
    [{ aggregate: 'count', cursor: '' }, 'aggregate cannot be combined with "cursor"'],
    [{ aggregate: 'count', filter: 'id = abc' }, 'invalid filter: unexpected "abc" at position 6'],
  ]
  for (const [query, message] of cases) {
    const { status, body } = await ask(query)
    assert.deepEqual([status, body.message], [400, message])
  }
})
