/**
 * npm run bench search
 * A page of a search with facets and highlights over 100,000 rows, against the SQL that somebody would write by hand for
 * the same answer, in turns; and the same search by a user whose policy leaves one row in a hundred.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startApp } from '../src/app.ts'
import { loadConfig } from '../src/config/config.ts'
import { startEmbedded } from '../src/db/setup/embedded/embedded.ts'
import { median } from './report.ts'

const AT_ONCE = 32
const REQUESTS = 96
const ROUNDS = 3
const MAX_RATIO = 1.3
const MAX_UNDER_POLICY = 2

const scratch = mkdtempSync(join(tmpdir(), 'svc-bench-search-'))
const cluster = await startEmbedded({ dataDir: join(scratch, 'pg'), log: () => {} })
const overrides = {
  'database.url': cluster.url,
  'server.port': 0,
  'log.level': 'error',
  'rate_limit.api': 'off',
  'admin.password': 'bench',
}
const app = await startApp(loadConfig({ overrides }).config, { observe: () => {} })
const admin = await app.issueAdminToken()

async function post(path: string, json: object, token?: string): Promise<unknown> {
  const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) }
  const answer = await fetch(app.url + path, { method: 'POST', headers, body: JSON.stringify(json) })
  if (answer.status !== 201) throw new Error(`${path} answered ${answer.status} ${await answer.text()}`)
  return answer.json()
}
const { token, user } = (await post('/api/auth/register', {
  email: 'bench@example.com',
  password: 'long enough password',
})) as { token: string; user: { id: string } }

/** Sixty words of a vocabulary in which `word7` stands in about one row of five hundred. */
const pool = new pg.Pool({ connectionString: cluster.url, max: AT_ONCE })
await pool.query(`
  create table articles (id int primary key, owner uuid, kind text, title text, body text);
  insert into articles select i, case when i % 100 = 0 then '${user.id}'::uuid end, 'kind ' || i % 12, 'Article ' || i,
      (select string_agg('word' || (abs(hashint4(i * 61 + k)) % 30000), ' ') from generate_series(1, 60) k)
    from generate_series(1, 100000) i;
  create table owned (like articles including all);
  insert into owned select * from articles;
  create table by_hand (like articles including all);
  insert into by_hand select * from articles;
  create index by_hand_words on by_hand using gin (to_tsvector('english', kind || ' ' || title || ' ' || body));
  alter table owned enable row level security;
  create policy own on owned using (owner = svc.uid())`)
for (const table of ['articles', 'owned']) await post('/api/admin/search/indexes', { table, method: 'fulltext' }, admin)
for (const table of ['articles', 'owned', 'by_hand']) await pool.query(`vacuum analyze ${table}`)

const VECTOR = `to_tsvector('english', kind || ' ' || title || ' ' || body)`
const ESCAPED = ['&|&amp;', '<|&lt;', '>|&gt;', '"|&quot;', `''|&#39;`].reduce((text, pair) => {
  const [from, to] = pair.split('|')
  return `replace(${text}, '${from}', '${to}')`
}, '%')
const headline = (text: string, options: string) =>
  `ts_headline('english', ${ESCAPED.replace('%', text)}, q.q${options})`
const marked = (column: string) => `'${column}', (select json_build_object('value', v, 'matchLevel',
  case when v like '%<b>%' then 'full' else 'none' end) from (select ${headline(column, `, 'HighlightAll=true'`)} as v offset 0) h)`
const byHand = {
  name: 'by hand',
  text: `
    with q as materialized (select websearch_to_tsquery('english', $1) as q),
    found as materialized (select b.*, ts_rank(${VECTOR}, q.q) as rank from by_hand b, q where ${VECTOR} @@ q.q)
    select json_build_object('totalItems', (select count(*) from found),
      'facets', (select json_agg(f) from (select kind as value, count(*) from found group by 1 order by 2 desc, 1) f),
      'items', (select json_agg(p) from (
        select id, owner, kind, title, body, ${headline(`kind || ' ' || title || ' ' || body`, '')} as "_highlight",
          json_build_object(${['kind', 'title', 'body'].map(marked).join()}) as "_highlightResult"
        from (select * from found order by rank desc, id limit 20) page, q) p))::text as answer`,
}

type Ask = (word: string) => Promise<{ totalItems: number; items: unknown[]; facets: object }>
const list =
  (table: string, bearer?: string): Ask =>
  async (word) => {
    const headers = bearer ? { authorization: `Bearer ${bearer}` } : {}
    const query = `search=${word}&facets=kind&highlight=true`
    const answer = await fetch(`${app.url}/api/collections/${table}?${query}`, { headers })
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
    return (await answer.json()) as Awaited<ReturnType<Ask>>
  }
const sides: Record<string, Ask> = {
  'by hand': async (word) => JSON.parse((await pool.query({ ...byHand, values: [word] })).rows[0].answer),
  search: list('articles'),
  'search under a policy': list('owned', token),
}

/** Milliseconds for each of many requests at once. */
async function measure(ask: Ask): Promise<number> {
  let left = REQUESTS
  const began = performance.now()
  const worker = async (): Promise<void> => {
    while (left-- > 0) await ask(`word${left % 50}`)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return (performance.now() - began) / REQUESTS
}

const [hand, mine] = [await sides['by hand']?.('word7'), await sides['search']?.('word7')]
if (hand?.totalItems !== mine?.totalItems || hand?.items.length !== mine?.items.length)
  throw new Error('answers differ')
console.log(
  `word7 is in ${mine?.totalItems} rows; the user sees ${(await sides['search under a policy']?.('word7'))?.totalItems}`,
)

const rounds: Record<string, number>[] = []
for (const ask of Object.values(sides)) await measure(ask)
for (let round = 0; round < ROUNDS; round++) {
  const took: Record<string, number> = {}
  for (const [side, ask] of Object.entries(sides)) took[side] = await measure(ask)
  rounds.push(took)
}
const ratioOf = (a: string, b: string) => median(rounds.map((round) => (round[a] ?? 0) / (round[b] ?? 0)))
for (const side of Object.keys(sides)) {
  console.log(
    `${side.padEnd(24)}${median(rounds.map((round) => round[side] ?? 0)).toFixed(2)} ms a request, ${AT_ONCE} at once`,
  )
}
const verdict = (ratio: number, bar: number) =>
  `${ratio.toFixed(2)} (bar ${bar.toFixed(2)}) ${ratio <= bar ? 'ok' : 'ABOVE'}`
console.log(`search / by hand        ${verdict(ratioOf('search', 'by hand'), MAX_RATIO)}`)
console.log(`under a policy / search ${verdict(ratioOf('search under a policy', 'search'), MAX_UNDER_POLICY)}`)

await pool.end()
await app.close()
await cluster.stop()
rmSync(scratch, { recursive: true, force: true })
