/**
 * npm run bench cursors [-- --quick]
 * A page far behind against the first one of the same list, by cursor, over two million rows: by key, descending, and by
 * several columns with NULLs in them. A page must cost the same however far it is.
 */
import { openConnection } from '../src/db/protocol/driver.ts'
import { startPostgres } from './kit/postgres.ts'
import { startBuilt } from './kit/processes.ts'
import { median } from './kit/report.ts'

const quick = process.argv.includes('--quick')
const ROWS = quick ? 200_000 : 2_000_000
const FAR_PAGE = ROWS / 200
const PER_PAGE = 20
/** Pages that bring the walk to the far page are as large as they may be. */
const STRIDE = 500
const ROUNDS = 9
const REQUESTS = 100
const BAR = 1.2
const SORTS = ['id', '-id', 'kind,-score', '-score,kind', '-score,-id']

const cluster = await startPostgres({ settings: { shared_buffers: '512MB', max_wal_size: '8GB' } })
const client = await openConnection({ url: cluster.url })
await client.query(`
  create table public.pages (id bigint primary key, kind int, score int, label text);
  insert into public.pages select i, nullif(i % 7, 0), nullif(hashint8(i) % 1000, 0), 'row ' || i from generate_series(1, ${ROWS}) i;
  create index on public.pages (kind, score desc, id);
  create index on public.pages (score desc, kind, id);
  create index on public.pages (score desc, id desc)`)
await client.query('vacuum analyze public.pages')
await client.end()
const server = await startBuilt(cluster.url, { SVC_LOG_LEVEL: 'error', SVC_RATE_LIMIT_API: 'off' })

type Page = { items: unknown[]; nextCursor: string | null }
async function page(sort: string, cursor: string, perPage = PER_PAGE): Promise<Page> {
  const query = new URLSearchParams({ sort, cursor, perPage: String(perPage) })
  const answer = await fetch(`http://127.0.0.1:${server.port}/api/collections/pages?${query}`)
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
  return (await answer.json()) as Page
}

async function cursorOfFarPage(sort: string): Promise<string> {
  let cursor = ''
  for (let row = 0; row < (FAR_PAGE - 1) * PER_PAGE; row += STRIDE) {
    cursor = (await page(sort, cursor, STRIDE)).nextCursor ?? ''
    if (cursor === '') throw new Error(`the list by ${sort} ended early`)
  }
  return cursor
}

/** Milliseconds a request. */
async function timed(sort: string, cursor: string): Promise<number> {
  const began = performance.now()
  for (let i = 0; i < REQUESTS; i++) await page(sort, cursor)
  return (performance.now() - began) / REQUESTS
}

console.log(`page ${FAR_PAGE} against page 1 of ${ROWS} rows, ${PER_PAGE} a page`)
for (const sort of SORTS) {
  const far = await cursorOfFarPage(sort)
  await timed(sort, '')
  await timed(sort, far)
  const rounds: { first: number; far: number }[] = []
  for (let round = 0; round < ROUNDS; round++)
    rounds.push({ first: await timed(sort, ''), far: await timed(sort, far) })
  const ratio = median(rounds.map((round) => round.far / round.first))
  const ms = (side: 'first' | 'far') => median(rounds.map((round) => round[side])).toFixed(2)
  console.log(
    `  by ${sort.padEnd(12)} ${ms('first')} ms, ${ms('far')} ms: ${ratio.toFixed(2)} (bar ${BAR}) ${ratio <= BAR ? 'ok' : 'ABOVE'}`,
  )
}

await server.stop()
await cluster.stop()
