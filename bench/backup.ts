/**
 * npm run bench backup [-- --quick --rounds --verify]
 * A backup of 2 GB while four clients write: the longest stall of a write beside the longest without a backup, how much the
 * server's memory grows, and megabytes of database per second beside `pg_basebackup` under the same load, in turns.
 */
import { spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { sleep } from '../src/core/clock.ts'
import { openConnection } from '../src/db/protocol/driver.ts'
import { startPostgres } from './kit/postgres.ts'
import { findPostgresTool, startBuilt } from './kit/processes.ts'
import { median } from './kit/report.ts'

const quick = process.argv.includes('--quick')
const MEGABYTES = quick ? 256 : 2048
const ROUNDS = process.argv.includes('--rounds') ? 3 : 1
const WRITERS = 4
const PAUSE_MS = 5
const UNDISTURBED_MS = 20_000
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
  insert into public.ballast select n, (select string_agg(md5(n::text || i), repeat('ordinary words ', 2)) from generate_series(1, 120) i)
    from generate_series(1, ${Math.round(MEGABYTES * 130)}) n`)
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

type Seen = { longestMs: number; writes: number; growthMb: number }

/** Writes while the work is under way. */
async function whileWriting(work: () => Promise<void>): Promise<Seen> {
  const before = server.residentBytes()
  const seen = { longestMs: 0, writes: 0, peak: before }
  let isOver = false
  const write = async (): Promise<void> => {
    while (!isOver) {
      const began = performance.now()
      await call('POST', '/collections/notes', admin, { title: 'a note of the benchmark' })
      seen.longestMs = Math.max(seen.longestMs, performance.now() - began)
      seen.writes++
      await sleep(PAUSE_MS)
    }
  }
  const watch = setInterval(() => {
    seen.peak = Math.max(seen.peak, server.residentBytes())
  }, 50)
  const writers = Array.from({ length: WRITERS }, write)
  await work()
  isOver = true
  await Promise.all(writers)
  clearInterval(watch)
  return { longestMs: seen.longestMs, writes: seen.writes, growthMb: (seen.peak - before) / 2 ** 20 }
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

async function byPgBasebackup(): Promise<void> {
  const folder = join(cluster.folder, 'base')
  // What ours does too: tar, compression, the log, a manifest with SHA-256.
  const args = ['-D', folder, '-Ft', '-X', 'fetch', '-c', 'fast', '--manifest-checksums=SHA256', '-Z', 'gzip:1']
  const child = spawn(basebackup ?? '', [...args, '-d', cluster.url], { stdio: ['ignore', 'inherit', 'inherit'] })
  const code = await new Promise((resolve) => child.once('exit', resolve))
  rmSync(folder, { recursive: true, force: true })
  if (code !== 0) throw new Error(`pg_basebackup ended with ${code}`)
}

async function timed(work: () => Promise<void>): Promise<{ seconds: number; seen: Seen }> {
  const began = performance.now()
  let seconds = 0
  const seen = await whileWriting(async () => {
    await work()
    seconds = (performance.now() - began) / 1000
  })
  return { seconds, seen }
}

const megabytes = await sizeOf()
await whileWriting(() => sleep(3_000))
const undisturbed = await whileWriting(() => sleep(UNDISTURBED_MS))
type Round = Record<'ours' | 'theirs', Awaited<ReturnType<typeof timed>>>
const rounds: Round[] = []
for (let round = 0; round < ROUNDS; round++) {
  const ours = await timed(() => job('POST', '/admin/backups'))
  const theirs = await timed(byPgBasebackup)
  rounds.push({ ours, theirs })
}
const perSecond = (pick: (round: Round) => number): number => megabytes / median(rounds.map(pick))
const [ours, theirs] = [perSecond((one) => one.ours.seconds), perSecond((one) => one.theirs.seconds)]
const worst = (pick: (round: Round) => number): number => Math.max(...rounds.map(pick))
const stall = worst((one) => one.ours.seen.longestMs)
const growth = worst((one) => one.ours.seen.growthMb)
const line = (what: string, text: string, isOk: boolean): void =>
  console.log(`${what.padEnd(34)}${text.padEnd(60)}${isOk ? 'ok' : 'BELOW'}`)
console.log(`\n${megabytes.toFixed(0)} MB, ${WRITERS} writers, ${ROUNDS} rounds in turns`)
line(
  'MB/s, ours (pg_basebackup -Z gzip:1)',
  ` ${ours.toFixed(0)} (${theirs.toFixed(0)}): ${(ours / theirs).toFixed(2)}, bar ${BARS.speed}`,
  ours / theirs >= BARS.speed,
)
line(
  'longest write, ms',
  ` ${stall.toFixed(0)} (${undisturbed.longestMs.toFixed(0)} without, ${worst((one) => one.theirs.seen.longestMs).toFixed(0)} with pg_basebackup), bar ${BARS.stall}`,
  stall <= BARS.stall * undisturbed.longestMs,
)
line('memory, MB more', ` ${growth.toFixed(0)}, bar ${BARS.growthMb}`, growth <= BARS.growthMb)
if (process.argv.includes('--verify')) {
  const { items } = (await call('GET', '/admin/backups', admin)) as { items: { id: string }[] }
  await job('POST', `/admin/backups/${items[0]?.id ?? ''}/verify`)
  line('verified by restoring it', '', true)
}
await server.stop()
await client.end()
await cluster.stop()
