import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../../test/kit/kit.ts'

const api = await startServer()
await api.sql(`
  create type pair as (a int, b int);
  create table pairs (id int primary key, p pair);
  insert into pairs values (1, null), (2, row(null, null)), (3, row(1, null)), (4, row(1, 2)), (5, row(null, null)), (6, null),
    (7, row(null, 3));
`)
const idsOf = (items: { id: number }[]) => items.map(({ id }) => id)

test('cursors over a composite column reach each row once', async () => {
  for (const sort of ['p', '-p']) {
    const whole = await api.call(`GET /api/collections/pairs?sort=${sort}`)
    const seen: number[] = []
    let cursor = ''
    for (let pages = 0; pages < 20; pages++) {
      const { body } = await api.call(
        `GET /api/collections/pairs?sort=${sort}&perPage=1&cursor=${encodeURIComponent(cursor)}`,
      )
      seen.push(...idsOf(body.items))
      if (body.nextCursor === null) break
      cursor = body.nextCursor
    }
    assert.deepEqual(seen, idsOf(whole.body.items), sort)
  }
})

test('a composite value is null where its JSON is null', async () => {
  const filtered = async (filter: string) =>
    idsOf((await api.call(`GET /api/collections/pairs?filter=${encodeURIComponent(filter)}`)).body.items)
  assert.deepEqual(
    [await filtered('p = null'), await filtered('p != null')],
    [
      [1, 6],
      [2, 3, 4, 5, 7],
    ],
  )
  const query = '{ a: pairs(where: {p: {_is_null: true}}) { id } b: pairs(where: {p: {_is_null: false}}) { id } }'
  const { body } = await api.call('POST /api/graphql', { json: { query } })
  assert.deepEqual(
    [idsOf(body.data.a), idsOf(body.data.b)],
    [
      [1, 6],
      [2, 3, 4, 5, 7],
    ],
  )
})
