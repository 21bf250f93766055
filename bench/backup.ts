/**
 * npm run bench backup [-- --quick --unverified]; ROUNDS (3), SLOW=1 lists the slowest writes
 * A backup of 2 GB while four clients write: the longest stall of a write beside the longest without a backup, how much the
 * server's memory grows, and megabytes of database per second beside `pg_basebackup` under the same load, in turns.
 * The longest of a time grows with the time, and one alone says little: each round has a time without a backup that is as long
 * as the backup before, disks are synced between the parts, and medians of the rounds are compared. A round in which other
 * programs used the processors says nothing: how much they did is printed.
 */
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { sleep } from '../src/core/clock.ts'
import { openConnection } from '../src/db/protocol/driver.ts'
import { startPostgres } from './kit/postgres.ts'
import { findPostgresTool, processorMs, startBuilt } from './kit/processes.ts'
import { type Asked, caller } from './kit/raw.ts'
import { median } from './kit/report.ts'

const quick = process.argv.includes('--quick')
const MEGABYTES = quick ? 256 : 2048
const ROUNDS = Number(process.env['ROUNDS'] ?? (quick ? 1 : 3))
const WRITERS = 4
/** 40 MB: what repeats lies so far apart that no compression sees it. */
const BODIES = 5_200
const PAUSE_MS = 5
const SETTLE_MS = 2_000
const BARS = { speed: 0.7, stall: 1.2, growthMb: 64 }

const basebackup = findPostgresTool('pg_basebackup')
if (!basebackup) throw new Error('pg_basebackup is not installed: nothing to compare with')

const cluster = await startPostgres({
  binDir: dirname(basebackup),
  settings: { shared_buffers: '512MB', max_wal_size: '4GB' },
})
const client = await openConnection({ url: cluster.url })
// Half of each row is random, so that it compresses as rows do.
await client.query(`
  create table public.notes (id bigint generated always as identity primary key, title text not null);
  create table public.ballast (id int primary key, body text);
  alter table public.ballast alter column body set storage external;
  create temp table bodies (n int, body text);
  alter table bodies alter column body set storage external;
  insert into bodies select n, (select string_agg(md5(n::text || i), repeat('ordinary words ', 2)) from generate_series(1, 120) i)
    from generate_series(1, ${BODIES}) n;
  insert into public.ballast select (round - 1) * ${BODIES} + n, body from generate_series(1, ${Math.round(MEGABYTES / 40)}) round, bodies order by 1;
  drop table bodies`)
await client.query('checkpoint')
const sizeOf = async (): Promise<number> => {
  const { rows } = await client.query<{ bytes: string }>('select sum(pg_database_size(oid)) as bytes from pg_database')
  return Number(rows[0]?.bytes) / 1e6
}
const target = join(cluster.folder, 'target')
const server = await startBuilt(cluster.url, {
  SVC_LOG_LEVEL: 'error',
  SVC_BACKUP_TO: target,
  SVC_BACKUP_PASSPHRASE: 'only for this',
  SVC_BACKUP_KEEP: '1',
  SVC_DATABASE_EMBEDDED_BIN_DIR: dirname(basebackup),
})
const url = `http://127.0.0.1:${server.port}/api`
const admin = await adminToken()

async function adminToken(): Promise<string> {
  const answer = await call('POST', '/admin/auth', '', { password: 'bench' })
  return String(answer['token'])
}

async function call(method: string, path: string, token: string, json?: unknown): Promise<Record<string, unknown>> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
    ...(json !== undefined && { body: JSON.stringify(json) }),
  })
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
  return (await response.json()) as Record<string, unknown>
}

const { rows: backends } = await client.query<{ pid: string }>('select pg_backend_pid() as pid')
const postmaster = Number(/PPid:\s+(\d+)/.exec(readFileSync(`/proc/${backends[0]?.pid}/status`, 'utf8'))?.[1])

/** Milliseconds of processor time that this machine has spent on other programs. */
function othersMs(): number {
  const [, user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] =
    readFileSync('/proc/stat', 'utf8').split('\n', 1)[0]?.split(/\s+/).map(Number) ?? []
  const ours = processorMs(process.pid, true) + processorMs(postmaster, true)
  return 10 * (user + nice + system + irq + softirq) - ours
}

type Slow = { atMs: number; ms: number }
type Seen = { longestMs: number; p999: number; writes: number; growthMb: number; slow: Slow[] }

const asked: Asked = {
  method: 'POST',
  path: '/api/collections/notes',
  token: admin,
  body: JSON.stringify({ title: 'a note of the benchmark' }),
}

/** Writes while the work is under way, as raw bytes: a collection of the garbage of `fetch` was the longest stall. */
async function whileWriting(work: () => Promise<void>): Promise<Seen> {
  const before = server.residentBytes()
  const all: Slow[] = []
  const start = performance.now()
  let peak = before
  let isOver = false
  const write = async (): Promise<void> => {
    const { ask, end } = caller()
    while (!isOver) {
      const began = performance.now()
      const { status } = await ask(server.port, asked)
      if (status !== 201) throw new Error(`a write answered ${status}`)
      all.push({ atMs: began - start, ms: performance.now() - began })
      await sleep(PAUSE_MS)
    }
    end()
  }
  const watch = setInterval(() => {
    peak = Math.max(peak, server.residentBytes())
  }, 50)
  const writers = Array.from({ length: WRITERS }, write)
  await work()
  isOver = true
  await Promise.all(writers)
  clearInterval(watch)
  const slow = all.sort((a, b) => b.ms - a.ms)
  return {
    longestMs: slow[0]?.ms ?? 0,
    p999: slow[Math.floor(slow.length / 1000)]?.ms ?? 0,
    writes: all.length,
    growthMb: (peak - before) / 2 ** 20,
    slow: slow.slice(0, 12),
  }
}

async function job(method: string, path: string): Promise<void> {
  const { job_id: id } = await call(method, path, admin, {})
  for (;;) {
    const { state, error } = await call('GET', `/admin/jobs/${String(id)}`, admin)
    if (state === 'completed') return
    if (state === 'failed') throw new Error(`${path} failed: ${String(error)}`)
    await sleep(100)
  }
}

const base = join(cluster.folder, 'base')

async function byPgBasebackup(): Promise<void> {
  // What ours does too: tar, compression, the log, a manifest with SHA-256.
  const args = ['-D', base, '-Ft', '-X', 'fetch', '-c', 'fast', '--manifest-checksums=SHA256', '-Z', 'gzip:1']
  const child = spawn(basebackup ?? '', [...args, '-d', cluster.url], { stdio: ['ignore', 'inherit', 'inherit'] })
  const code = await new Promise((resolve) => child.once('exit', resolve))
  if (code !== 0) throw new Error(`pg_basebackup ended with ${code}`)
}

async function timed(work: () => Promise<void>): Promise<{ seconds: number; seen: Seen; others: number }> {
  // What the part before has left to write would be paid for by this one.
  spawnSync('sync')
  await sleep(SETTLE_MS)
  const [began, others] = [performance.now(), othersMs()]
  let seconds = 0
  const seen = await whileWriting(async () => {
    await work()
    seconds = (performance.now() - began) / 1000
  })
  return { seconds, seen, others: (othersMs() - others) / (performance.now() - began) }
}

const megabytes = await sizeOf()
await whileWriting(() => sleep(3_000))
type Round = Record<'ours' | 'theirs' | 'without', Awaited<ReturnType<typeof timed>>>
const rounds: Round[] = []
let length = quick ? 5_000 : 25_000
for (let round = 0; round < ROUNDS; round++) {
  // As long as a backup: the longest of a longer time is longer.
  const without = await timed(() => sleep(length))
  const ours = await timed(() => job('POST', '/admin/backups'))
  const theirs = await timed(byPgBasebackup)
  // Not measured: it is no work of pg_basebackup, and this process, which writes, stands still meanwhile.
  rmSync(base, { recursive: true, force: true })
  length = ours.seconds * 1000
  rounds.push({ without, ours, theirs })
  for (const [name, { seconds, seen, others }] of Object.entries(rounds.at(-1) ?? {})) {
    const { longestMs, p999, writes, growthMb } = seen
    const figures = [`${seconds.toFixed(1)} s`, `${writes} writes`, `p99.9 ${p999.toFixed(0)} ms`]
    console.log(
      [
        name.padEnd(8),
        ...figures,
        `longest ${longestMs.toFixed(0)} ms`,
        `+${growthMb.toFixed(0)} MB`,
        `others ${(100 * others).toFixed(0)} %`,
      ].join('  '),
    )
    if (process.env['SLOW'])
      console.log(seen.slow.map(({ atMs, ms }) => `${(atMs / 1000).toFixed(2)}s:${ms.toFixed(0)}`).join(' '))
  }
}
const middle = (pick: (round: Round) => number): number => median(rounds.map(pick))
const [ours, theirs] = [megabytes / middle((one) => one.ours.seconds), megabytes / middle((one) => one.theirs.seconds)]
const longest = (which: keyof Round): number => middle((one) => one[which].seen.longestMs)
const growth = Math.max(...rounds.map((one) => one.ours.seen.growthMb))
const line = (what: string, text: string, isOk: boolean): void =>
  console.log(`${what.padEnd(38)}${text.padEnd(60)}${isOk ? 'ok' : 'BELOW'}`)
console.log(`\n${megabytes.toFixed(0)} MB, ${WRITERS} writers, ${ROUNDS} rounds in turns`)
line(
  'MB/s, ours (pg_basebackup -Z gzip:1)',
  `${ours.toFixed(0)} (${theirs.toFixed(0)}): ${(ours / theirs).toFixed(2)}, bar ${BARS.speed}`,
  ours / theirs >= BARS.speed,
)
line(
  'longest write of a time as long, ms',
  `${longest('ours').toFixed(0)} (${longest('without').toFixed(0)} without, ${longest('theirs').toFixed(0)} with pg_basebackup), bar ${BARS.stall}`,
  longest('ours') <= BARS.stall * longest('without'),
)
line('memory, MB more', `${growth.toFixed(0)}, bar ${BARS.growthMb}`, growth <= BARS.growthMb)
if (!quick && !process.argv.includes('--unverified')) {
  const { items } = (await call('GET', '/admin/backups', admin)) as { items: { id: string }[] }
  const { seconds } = await timed(() => job('POST', `/admin/backups/${items[0]?.id ?? ''}/verify`))
  line('verified by restoring it', `${seconds.toFixed(0)} s`, true)
}
await server.stop()
await client.end()
await cluster.stop()
