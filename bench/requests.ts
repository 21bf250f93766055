/**
 * npm run bench [requests] [-- --quick] [word of a scenario…]
 * Starts everything itself: PostgreSQL, the built server, and the leanest handler written by hand (bare.ts). Rounds are
 * interleaved, so that a noisy machine disturbs both alike; what counts are the ratios, and the processor time of a
 * request. Load comes from `wrk` where it is installed, else from load.ts.
 */
import { cpus, totalmem } from 'node:os'
import { seed } from './kit/database.ts'
import type { Measured } from './kit/load.ts'
import { startPostgres } from './kit/postgres.ts'
import { findPgbench, load, pgbench, type Stage, startBare, startBuilt, userMs } from './kit/processes.ts'
import type { Asked } from './kit/raw.ts'
import { type Figures, type Line, median, print, save } from './kit/report.ts'
import { hasWrk, wrk } from './kit/wrk.ts'

const quick = process.argv.includes('--quick')
const wanted = process.argv.slice(2).filter((word) => !word.startsWith('--') && word !== 'requests')
const ROUNDS = quick ? 3 : 7
const SECONDS = quick ? 2 : 4
const CONNECTIONS = 32
/** Requests of one scenario differ in their values. */
const VARIANTS = 1000

const cluster = await startPostgres({ settings: { max_connections: '200', shared_buffers: '512MB' } })
const postmaster = cluster.pid
console.log('seeding …')
const { token, userId } = await seed(cluster.url)
const bare = await startBare({ url: cluster.url, userId })
const server = await startBuilt(cluster.url, { SVC_DATABASE_MAX_CONNS: '25' })
const idleMegabytes = server.residentBytes() / 2 ** 20

type Scenario = { name: string; bar: number; server: Asked[]; bare: Asked[] }
const each = (ask: (i: number) => Asked): Asked[] => Array.from({ length: VARIANTS }, (_, i) => ask(i))
const get = (path: string, asked: Partial<Asked> = {}): Asked => ({ method: 'GET', path, ...asked })
const post = (path: string, body: object, asked: Partial<Asked> = {}): Asked => ({
  method: 'POST',
  path,
  body: JSON.stringify(body),
  ...asked,
})
const listOf = (table: string, i: number) =>
  `/api/collections/${table}?filter=${encodeURIComponent(`title>='n${i}'`)}&sort=-id&perPage=20&skipTotal=true`
const pair = (i: number) => ({ label: `row ${i}`, n: i })
const thousand = {
  operations: Array.from({ length: 1000 }, (_, i) => ({
    method: 'create',
    body: { owner: userId, project_id: (i % 100) + 1, title: `note ${i}` },
  })),
}

const scenarios: Scenario[] = [
  { name: 'health', bar: 0.9, server: [get('/health')], bare: [get('/health')] },
  {
    name: 'read by id',
    bar: 0.9,
    server: each((i) => get(`/api/collections/posts/${i + 1}`)),
    bare: each((i) => get(`/read?${i + 1}`)),
  },
  {
    name: 'list of 20, filter and sort',
    bar: 0.9,
    server: each((i) => get(listOf('posts', i))),
    bare: each((i) => get(`/list?n${i}`)),
  },
  {
    name: 'list of 20 under RLS, user token',
    bar: 0.9,
    server: each((i) => get(listOf('notes', i), { token })),
    bare: each((i) => get(`/own?n${i}`)),
  },
  {
    name: 'create',
    bar: 0.8,
    server: each((i) => post('/api/collections/pairs', pair(i))),
    bare: each((i) => post('/create', pair(i))),
  },
  {
    name: 'call of a small function',
    bar: 0.85,
    server: each((i) => post('/api/rpc/add', { a: i, b: 1 })),
    bare: each((i) => post('/call', { a: i, b: 1 })),
  },
  {
    name: 'batch of 1000 creates under RLS',
    bar: 0.6,
    server: [post('/api/collections/imports/batch', thousand, { token })],
    bare: [post('/batch', thousand)],
  },
].filter(({ name }) => wanted.length === 0 || wanted.some((word) => name.includes(word)))

const generate = hasWrk() ? wrk : load

async function measure(name: string, stage: Stage, requests: Asked[]): Promise<Measured & Figures> {
  const [node, postgres] = [userMs(stage.pid), userMs(postmaster, true)]
  const measured = await generate({ port: stage.port, requests, connections: CONNECTIONS, seconds: SECONDS })
  const failed = Object.keys(measured.statuses).filter((status) => !status.startsWith('2'))
  if (failed.length > 0) throw new Error(`${name} answered ${failed.join(', ')}`)
  return {
    ...measured,
    nodeUs: ((userMs(stage.pid) - node) * 1000) / measured.count,
    postgresUs: ((userMs(postmaster, true) - postgres) * 1000) / measured.count,
  }
}

const figures = (rounds: readonly Figures[]): Figures => ({
  rps: median(rounds.map(({ rps }) => rps)),
  p50: median(rounds.map(({ p50 }) => p50)),
  p99: median(rounds.map(({ p99 }) => p99)),
  nodeUs: median(rounds.map(({ nodeUs }) => nodeUs)),
  postgresUs: median(rounds.map(({ postgresUs }) => postgresUs)),
})

const lines: Line[] = []
for (const { name, bar, server: toServer, bare: toBare } of scenarios) {
  process.stdout.write(`${name} `)
  const [own, mark]: [Figures[], Figures[]] = [[], []]
  // The first round only warms both.
  for (let round = 0; round <= ROUNDS; round++) {
    process.stdout.write('.')
    const [ours, theirs] = [await measure(name, server, toServer), await measure(`bare ${name}`, bare, toBare)]
    if (round === 0) continue
    own.push(ours)
    mark.push(theirs)
  }
  console.log()
  const ratio = median(own.map(({ rps }, i) => rps / (mark[i]?.rps ?? Number.NaN)))
  lines.push({ scenario: name, ratio, bar, server: figures(own), bare: figures(mark) })
}

const facts: Record<string, unknown> = {
  node: process.version,
  cpus: cpus().length,
  memoryGB: Math.round(totalmem() / 2 ** 30),
  rounds: ROUNDS,
  secondsPerRound: SECONDS,
  connections: CONNECTIONS,
  generator: hasWrk() ? 'wrk' : 'load.ts',
  idleMegabytes: Math.round(idleMegabytes),
}
const binary = findPgbench()
if (binary && (wanted.length === 0 || wanted.includes('pgbench'))) {
  const session = "select set_config('role', 'svc_anon', true), set_config('svc.user_id', '', true);"
  const four = ['begin;', session, 'select to_json(p)::text from public.posts p where p.id = 1;', 'commit;']
  facts['pgbenchReadTps'] = Math.round(await pgbench(binary, cluster.url, four, SECONDS))
  console.log(`pgbench, the read as BEGIN, SET, SELECT, COMMIT without HTTP: ${facts['pgbenchReadTps']} transactions/s`)
} else if (!binary) console.log('pgbench is not installed')

print(lines)
console.log(`\nresident memory of the idle server: ${Math.round(idleMegabytes)} MB`)
save(wanted.length === 0 ? 'latest' : `partial-${wanted.join('-')}`, lines, facts)
await Promise.all([bare.stop(), server.stop()])
await cluster.stop()
