/**
 * npm run bench graphql
 * Three levels of 20 × 10 × 10 rows through the built server, against the same answer written by hand in SQL, in turns.
 * PostgreSQL itself tells how many statements a request was.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startEmbedded } from '../src/db/setup/embedded/embedded.ts'
import { startBuilt } from './processes.ts'
import { median } from './report.ts'

const ROUNDS = 300
const BAR = 1.5

const dataDir = mkdtempSync(join(tmpdir(), 'svc-bench-pg-'))
const settings = { shared_preload_libraries: 'pg_stat_statements' }
const cluster = await startEmbedded({ dataDir, log: () => {}, settings })
const client = new pg.Client({ connectionString: cluster.url })
await client.connect()
await client.query(`
  create extension pg_stat_statements;
  create table authors (id int primary key, name text);
  create table posts (id int primary key, author_id int references authors, title text);
  create table comments (id int primary key, post_id int references posts, body text);
  insert into authors select n, 'author ' || n from generate_series(1, 20) n;
  insert into posts select n, (n - 1) / 10 + 1, 'post ' || n from generate_series(1, 200) n;
  insert into comments select n, (n - 1) / 10 + 1, 'comment ' || n from generate_series(1, 2000) n;
  create index on posts (author_id, id); create index on comments (post_id, id); analyze`)
const server = await startBuilt(cluster.url)

const body = JSON.stringify({ query: '{ authors { id name posts { id title comments { id body } } } }' })
const ask = async (): Promise<string> => {
  const headers = { 'content-type': 'application/json' }
  return (await fetch(`http://127.0.0.1:${server.port}/api/graphql`, { method: 'POST', headers, body })).text()
}
const bySql = {
  name: 'by hand',
  text: `select json_agg(a)::text as text from (select a.id, a.name, (select json_agg(p) from (
      select p.id, p.title, (select json_agg(c) from (select c.id, c.body from comments c where c.post_id = p.id order by c.id) c)
        as comments from posts p where p.author_id = a.id order by p.id) p) as posts from authors a order by a.id) a`,
}
const byHand = async (): Promise<string> => (await client.query(bySql)).rows[0].text

const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const began = performance.now()
  await work()
  return performance.now() - began
}
const answer = JSON.parse(await ask()).data.authors
if (JSON.stringify(answer) !== JSON.stringify(JSON.parse(await byHand()))) throw new Error('the two answers differ')
for (let i = 0; i < 50; i++) await Promise.all([ask(), byHand()])
await client.query('select pg_stat_statements_reset()')
const [ours, theirs]: [number[], number[]] = [[], []]
for (let i = 0; i < ROUNDS; i++) {
  ours.push(await timed(ask))
  theirs.push(await timed(byHand))
}
const { rows } = await client.query(
  `select sum(calls)::int as calls from pg_stat_statements where query ilike '%comments%' and query not ilike '%order by c.id) c)%'`,
)
const ratio = median(ours) / median(theirs)
console.log(`three levels, 2,220 rows: ${median(ours).toFixed(2)} ms, by hand ${median(theirs).toFixed(2)} ms`)
console.log(`ratio ${ratio.toFixed(2)}, bar ${BAR}: ${ratio <= BAR ? 'ok' : 'above'}`)
console.log(`statements per request: ${(Number(rows[0].calls) / ROUNDS).toFixed(2)}`)
await client.end()
await server.stop()
await cluster.stop()
rmSync(dataDir, { recursive: true, force: true })
