/**
 * npm run bench bulk [-- --quick]
 * A million rows out of a table and into an empty copy of it, against `psql \copy` of the same rows to and from a file on
 * the same PostgreSQL, in turns; and how much the server's memory grows meanwhile.
 */
import { spawn } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { openConnection } from '../src/db/protocol/driver.ts'
import { startPostgres } from './kit/postgres.ts'
import { findPostgresTool, startBuilt } from './kit/processes.ts'
import { median } from './kit/report.ts'

const quick = process.argv.includes('--quick')
const ROWS = quick ? 100_000 : 1_000_000
const ROUNDS = 3
const BARS = { export: 0.5, import: 0.4 }
const MAX_GROWTH_MB = 64
const SAMPLED_EVERY_MS = 20

const psql = findPostgresTool('psql')
if (!psql) throw new Error('psql is not installed: nothing to compare with')

const cluster = await startPostgres({ settings: { shared_buffers: '512MB', max_wal_size: '8GB' } })
const client = await openConnection({ url: cluster.url })
const COLUMNS = '(id bigint primary key, name text not null, email text, age int, balance numeric, made timestamptz)'
await client.query(`
  create table public.people ${COLUMNS};
  create table public.copied ${COLUMNS};
  create table public.by_psql ${COLUMNS};
  insert into public.people select i, 'person ' || i, case when i % 10 > 0 then 'p' || i || '@example.com' end,
    i % 90, i * 1.25, '2026-01-01'::timestamptz + i * interval '1 second' from generate_series(1, ${ROWS}) i`)
await client.query('vacuum analyze public.people')
const server = await startBuilt(cluster.url, { SVC_LOG_LEVEL: 'error' })
const url = `http://127.0.0.1:${server.port}/api/collections`
const files = { ours: join(cluster.folder, 'ours.csv'), psql: join(cluster.folder, 'psql.csv') }

/** Milliseconds. */
async function timed(command: string, args: readonly string[]): Promise<number> {
  const began = performance.now()
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  const code = await new Promise((resolve) => child.once('exit', resolve))
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}`)
  return performance.now() - began
}

const copy = (what: string) => timed(psql, ['-qX', '-v', 'ON_ERROR_STOP=1', '-c', `\\copy ${what}`, cluster.url])
const curl = (...args: string[]) => timed('curl', ['-sS', '--fail', ...args])

/** Both begin with nothing of the round before left to be written. */
async function emptied(table: string): Promise<void> {
  await client.query(`truncate public.${table}, svc.change_log, svc.change_packs`)
  await client.query('checkpoint')
}

const sides = {
  export: {
    psql: () => copy(`public.people to '${files.psql}' (format csv, header)`),
    ours: () => curl('-o', files.ours, `${url}/people/export.csv`),
  },
  import: {
    psql: async () => {
      await emptied('by_psql')
      return copy(`public.by_psql from '${files.psql}' (format csv, header)`)
    },
    ours: async () => {
      await emptied('copied')
      return curl(
        '-o',
        '/dev/null',
        '-X',
        'POST',
        '-H',
        'content-type: text/csv',
        '-T',
        files.ours,
        `${url}/copied/import`,
      )
    },
  },
}

/** Warm: what a server needs for its first requests is not theirs. */
await curl('-o', '/dev/null', `${url}/people/export.csv?filter=id<1000`)
const before = server.residentBytes()
let peak = before
const sampling = setInterval(() => (peak = Math.max(peak, server.residentBytes())), SAMPLED_EVERY_MS)

for (const direction of ['export', 'import'] as const) {
  const ratios: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const mark = await sides[direction].psql()
    const took = await sides[direction].ours()
    ratios.push(mark / took)
    console.log(
      `${direction}: ${(took / 1000).toFixed(2)} s, psql ${(mark / 1000).toFixed(2)} s, ${(mark / took).toFixed(2)}`,
    )
  }
  const [ratio, bar] = [median(ratios), BARS[direction]]
  console.log(
    `${direction} of ${ROWS} rows (${Math.round(statSync(files.ours).size / 1e6)} MB): ${ratio.toFixed(2)} of psql's speed, bar ${bar} ${ratio >= bar ? 'ok' : 'BELOW'}`,
  )
}
clearInterval(sampling)

const hashes = await client.query<{ hash: string }>(
  ['people', 'copied', 'by_psql']
    .map((table) => `select count(*) || ' rows ' || sum(hashtextextended(t::text, 0)) as hash from public.${table} t`)
    .join(' union all '),
)
const [original, ...copies] = hashes.rows.map(({ hash }) => hash)
console.log(`tables ${copies.every((hash) => hash === original) ? 'equal ok' : 'DIFFER'}: ${original}`)
const growth = (peak - before) / 2 ** 20
console.log(
  `memory of the server at most +${growth.toFixed(1)} MB, bar ${MAX_GROWTH_MB} ${growth <= MAX_GROWTH_MB ? 'ok' : 'ABOVE'}`,
)

await client.end()
await server.stop()
await cluster.stop()
