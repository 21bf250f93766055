import assert from 'node:assert/strict'
import type { Asked } from '../kit/raw.ts'
import { startStage } from './stage.ts'
import { byHand, inTurns, overHttp } from './turns.ts'

const SECONDS = 6
const stage = await startStage()
const { pool, user, server } = stage

/**
 * Of sixty words of a row, twenty are found in a thousand rows of 100,000 each and the others in two hundred. They have no
 * endings that would make two of them one.
 */
console.log('100,000 rows of text …')
await pool.query(`
  create function letters(n int) returns text language sql immutable
    as $$ select translate(n::text, '0123456789', 'bdfgkmpvxz') $$;
  create table articles (id int primary key, owner uuid, kind text, title text, body text);
  insert into articles
    select i, case when i % 100 = 0 then '${user.id}'::uuid end, 'kind ' || i % 12, 'Article ' || i,
      (select string_agg(case when k <= 20 then 'c' || letters(abs(hashint4(i * 61 + k)) % 2000)
          else 'r' || letters(abs(hashint4(i * 61 + k)) % 20000) end, ' ' order by hashint4(i + k))
        from generate_series(1, 60) k)
    from generate_series(1, 100000) i;
  create table owned (like articles including all);
  insert into owned select * from articles;
  alter table owned enable row level security;
  create policy own on owned using (owner = svc.uid())`)
const VECTOR = `to_tsvector('english', kind || ' ' || title || ' ' || body)`
await Promise.all([
  ...['articles', 'owned'].map((table) => stage.build('/api/admin/search/indexes', { table, method: 'fulltext' })),
  pool.query(`create index by_hand on articles using gin (${VECTOR})`),
])
for (const table of ['articles', 'owned']) await pool.query(`vacuum analyze ${table}`)

const ENTITIES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "''": '&#39;' }
const headline = (text: string, options = ''): string => {
  const escaped = Object.entries(ENTITIES).reduce((all, [from, to]) => `replace(${all}, '${from}', '${to}')`, text)
  return `ts_headline('english', ${escaped}, q.q${options})`
}
const marked = (column: string): string =>
  `'${column}', (select json_build_object('value', v, 'matchLevel', case when v like '%<b>%' then 'full' else 'none' end)
    from (select ${headline(column, `, 'HighlightAll=true'`)} as v offset 0) h)`
const BY_HAND = `
  with q as materialized (select websearch_to_tsquery('english', $1) as q),
  found as materialized (select a.*, ts_rank(${VECTOR}, q.q) as rank from articles a, q where ${VECTOR} @@ q.q)
  select json_build_object('totalItems', (select count(*) from found),
    'facets', json_build_object('kind', (
      select json_agg(f) from (select kind as value, count(*) from found group by 1 order by 2 desc, 1) f)),
    'items', (select json_agg(p) from (
      select id, owner, kind, title, body, ${headline(`kind || ' ' || title || ' ' || body`)} as "_highlight",
        json_build_object(${['kind', 'title', 'body'].map(marked).join()}) as "_highlightResult"
      from (select * from found order by rank desc, id limit 20) page, q) p))::text as answer`

const letters = (n: number): string => String(n).replace(/\d/g, (digit) => 'bdfgkmpvxz'.charAt(Number(digit)))
const words = (first: string): string[] => Array.from({ length: 100 }, (_, i) => first + letters(100 + i))
const ask = (table: string, word: string, token?: string): Asked => ({
  method: 'GET',
  path: `/api/collections/${table}?search=${word}&facets=kind&highlight=true`,
  ...(token && { token }),
})

/** Both sides must say the same before either is measured. */
async function rowsOf(word: string): Promise<number> {
  const hand = JSON.parse((await pool.query(BY_HAND, [word])).rows[0].answer)
  const answer = await fetch(`http://127.0.0.1:${server.port}${ask('articles', word).path}`)
  const { totalItems, facets, items } = (await answer.json()) as { totalItems: number; facets: unknown; items: unknown }
  assert.deepEqual({ totalItems, facets, items }, hand)
  return totalItems
}

for (const first of ['c', 'r']) {
  const asked = words(first)
  const found = await Promise.all(asked.slice(0, 5).map(rowsOf))
  const average = found.reduce((sum, n) => sum + n, 0) / found.length
  await inTurns(
    `a word of about ${average.toFixed(0)} rows, with facets and highlights`,
    {
      'by hand': byHand(stage, BY_HAND, asked),
      search: overHttp(
        stage,
        asked.map((word) => ask('articles', word)),
      ),
      'under a policy': overHttp(
        stage,
        asked.map((word) => ask('owned', word, user.token)),
      ),
    },
    [
      ['search', 'by hand', 1.3],
      ['under a policy', 'search', 2],
    ],
    SECONDS,
  )
}
await stage.stop()
