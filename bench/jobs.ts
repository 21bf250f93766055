/**
 * npm run bench jobs [-- --quick]
 * Short jobs through the queue, against pgbench with the bare statements: claim one row and delete it, with as many
 * clients as there are places for jobs: 4, the default, 8 and 32. Rounds are
 * interleaved, so that a noisy machine disturbs both alike.
 */
import { cpus } from 'node:os'
import { loadConfig } from '../src/config/config.ts'
import { SYSTEM } from '../src/core/identity.ts'
import { Queue } from '../src/db/queue/queue.ts'
import { openDatabase } from '../src/db/setup/database.ts'
import { sql } from '../src/db/sql.ts'
import { Runner } from '../src/features/jobs/runner.ts'
import { startPostgres } from './kit/postgres.ts'
import { findPgbench, pgbench } from './kit/processes.ts'
import { median } from './kit/report.ts'

const quick = process.argv.includes('--quick')
const JOBS = quick ? 3_000 : 10_000
const ROUNDS = quick ? 1 : 3
/** By places. A claim brings no more jobs than there are places, so with few places empty jobs wait for claims. */
const BARS = new Map([
  [4, 0.25],
  [8, 0.4],
  [32, 0.5],
])

const cluster = await startPostgres({ settings: { shared_buffers: '256MB' } })
const observe = () => {}
const { config } = loadConfig({ overrides: { 'database.url': cluster.url } })
const { pool: db } = await openDatabase({
  url: cluster.url,
  config: config.database,
  api: config.api,
  observe,
  progress: observe,
})
const binary = findPgbench()

const fill = () =>
  db.run(
    SYSTEM,
    sql`insert into svc.jobs (type, max_attempts) select 'nothing', 3 from generate_series(1, ${JOBS}::int)`,
  )
const left = async () =>
  Number(await db.fly(SYSTEM, sql`select count(*)::text from svc.jobs where state in ('queued', 'running')`))

async function ours(places: number): Promise<number> {
  await fill()
  await db.run(SYSTEM, sql`analyze svc.jobs`)
  const queue = new Queue({ db, observe })
  queue.start()
  const runner = new Runner({ db, queue, config: { ...config.jobs, worker_concurrency: places }, onRun: () => {} })
  let done = 0
  let all = () => {}
  const finished = new Promise<void>((resolve) => (all = resolve))
  const startedAt = performance.now()
  runner.work({
    async nothing() {
      done++
      if (done === JOBS) all()
    },
  })
  await finished
  while ((await left()) > 0);
  const seconds = (performance.now() - startedAt) / 1000
  await queue.stop()
  return JOBS / seconds
}

/** The rows of a plain queue, each claimed and deleted by one statement. */
async function bare(clients: number): Promise<number> {
  if (!binary) return Number.NaN
  await db.run(SYSTEM, [
    sql`drop table if exists public.bare_queue`,
    sql`create table public.bare_queue (id bigint generated always as identity primary key, payload jsonb, run_at timestamptz default now())`,
    sql`create index on public.bare_queue (run_at)`,
    sql`insert into public.bare_queue (payload) select '{}' from generate_series(1, 400000)`,
    sql`analyze public.bare_queue`,
  ])
  const claim = `delete from public.bare_queue where id = (select id from public.bare_queue where run_at <= now() order by run_at limit 1 for update skip locked);`
  return pgbench(binary, cluster.url, [claim], quick ? 2 : 5, clients)
}

for (const [places, bar] of BARS) {
  const ratios: number[] = []
  for (let round = 1; round <= ROUNDS; round++) {
    const [rate, mark] = [await ours(places), await bare(places)]
    ratios.push(rate / mark)
    console.log(
      `${places} at a time, round ${round}: ${rate.toFixed(0)} jobs/s, pgbench ${mark.toFixed(0)}/s, ratio ${(rate / mark).toFixed(2)}`,
    )
  }
  const ratio = median(ratios)
  console.log(
    binary
      ? `${JOBS} jobs, ${places} at a time, ${cpus().length} cores: ratio ${ratio.toFixed(2)}, bar ${bar} ${ratio >= bar ? 'ok' : 'BELOW'}`
      : 'pgbench is not installed: nothing to compare with',
  )
}
await db.stop()
await cluster.stop()
