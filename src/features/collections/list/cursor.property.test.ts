import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../../test/kit/kit.ts'

const COLUMNS = ['i', 'f', 't', 'n', 'b', 'd', 'ts', 'u', 'j', 'arr', 'e', 'iv', 'c']

/** Reproducible: the seed is in every message. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

type SortKey = { name: string; descending: boolean }
type Page = { keys: string[]; next: string | null }

const api = await startServer()

async function byRest(sort: SortKey[], cursor: string, size: number): Promise<Page> {
  const keys = sort.map(({ name, descending }) => (descending ? `-${name}` : name)).join(',')
  const query = new URLSearchParams({ cursor, sort: keys, perPage: String(size), fields: 'k' })
  const { status, body } = await api.call(`GET /api/collections/zoo?${query}`)
  assert.equal(status, 200, JSON.stringify(body))
  return { keys: body.items.map(({ k }: { k: string }) => k), next: body.nextCursor }
}

async function byGraphql(sort: SortKey[], after: string, first: number): Promise<Page> {
  const query = `query q($sort: [zoo_order_by!], $after: String, $first: Int) {
    zoo(order_by: $sort, after: $after, first: $first) { k _cursor } }`
  const keys = sort.map(({ name, descending }) => ({ [name]: descending ? 'DESC' : 'ASC' }))
  const { body } = await api.call('POST /api/graphql', { json: { query, variables: { sort: keys, after, first } } })
  assert.equal(body.errors, undefined, JSON.stringify(body))
  const rows: { k: string; _cursor: string }[] = body.data.zoo
  return { keys: rows.map(({ k }) => k), next: rows.length < first ? null : (rows.at(-1)?._cursor ?? null) }
}

test('rows that stay are on exactly one page, whatever the sort, whichever way and whoever writes meanwhile', async () => {
  await api.sql(`
    create type mood as enum ('sad', 'ok', 'glad');
    create table zoo (a int, k text, i int, f float8, t text, n numeric, b bool, d date, ts timestamptz, u uuid, j jsonb,
      arr int[], e mood, iv interval, c char(3), primary key (a, k));
    create function pick(text) returns text language sql volatile as
      $$ select v from unnest(string_to_array($1, ' ')) v order by random() limit 1 $$;
    create function fill(from_n int, to_n int) returns void language sql as $$
      insert into zoo select n % 3, 'k' || n,
        nullif((random() * 3)::int, 0), nullif(pick('0 1.5 -2.25 NaN Infinity 0.1 x'), 'x')::float8,
        nullif(pick('a b A é x'), 'x'), nullif(pick('1 1.0 2.50 -3 x'), 'x')::numeric, nullif(pick('t f x'), 'x')::bool,
        nullif(pick('2020-01-01 2021-02-03 x'), 'x')::date, nullif(pick('2020-01-01T00:00:00.000001Z 2021-01-01 x'), 'x')::timestamptz,
        nullif(pick('00000000-0000-0000-0000-000000000001 f0000000-0000-0000-0000-000000000001 x'), 'x')::uuid,
        nullif(pick('1 "a" {} [] x'), 'x')::jsonb, nullif(pick('{1} {1,2} {} {NULL} x'), 'x')::int[],
        nullif(pick('sad ok glad x'), 'x')::mood, nullif(pick('1h 60min 1d x'), 'x')::interval, nullif(pick('a b x'), 'x')::char(3)
      from generate_series(from_n, to_n) n $$;
    select fill(1, 60);`)
  const staying = new Set((await api.sql('select k from zoo')).map(({ k }) => k))
  const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
  const random = randomFrom(seed)
  let made = 1000
  for (let round = 0; round < 15; round++) {
    const columns = [...COLUMNS].sort(() => random(3) - 1).slice(0, random(5))
    const sort = columns.map((name) => ({ name, descending: random(2) === 1 }))
    const shown = `seed ${seed}, sorted by ${JSON.stringify(sort)}`
    const seen: string[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      // A cursor is the same thing to both.
      const page: Page = await (random(2) ? byRest : byGraphql)(sort, cursor, 1 + random(17))
      seen.push(...page.keys)
      cursor = page.next
      made += 3
      await api.sql(
        `select fill(${made}, ${made + 2}); delete from zoo where k = 'k' || ${made - 3 - random(9)}
        and not k = any ($1)`.replace('$1', `'{${[...staying].join()}}'`),
      )
      if (seen.length > 2000) break
    }
    assert.equal(new Set(seen).size, seen.length, `${shown}: a row twice`)
    const lost = [...staying].filter((k) => !seen.includes(k))
    assert.deepEqual(lost, [], `${shown}: rows lost`)
    await api.sql(`delete from zoo where not k = any ('{${[...staying].join()}}')`)
  }
})
