/**
 * npm run bench [requests] [-- --quick] [word of a scenario…]
 * Starts everything itself: PostgreSQL, the built server, and the leanest handler written by hand (bare.ts). Requests carry
 * the tokens of 32 users in turn, to both; nothing but /health is anonymous. Rounds are interleaved, so that a noisy machine
 * disturbs both alike, and neither has a larger share of the processors than the other; what counts are the ratios, and the
 * processor time of a request. Load comes from `wrk` where it is installed, else from load.ts.
 */
import { cpus, totalmem } from 'node:os'
import { seed } from './kit/database.ts'
import type { Measured } from './kit/load.ts'
import { startPostgres } from './kit/postgres.ts'
import { findPgbench, load, pgbench, processorMs, type Stage, startBare, startBuilt } from './kit/processes.ts'
import type { Asked } from './kit/raw.ts'
import { type Figures, type Line, median, print, save } from './kit/report.ts'
import { hasWrk, wrk } from './kit/wrk.ts'

const quick = process.argv.includes('--quick')
const wanted = process.argv.slice(2).filter((word) => !word.startsWith('--') && word !== 'requests')
const ROUNDS = quick ? 3 : 7
const SECONDS = quick ? 2 : 4
const CONNECTIONS = 32
/** Each request carries the token of the next one. */
const USERS = 32
/** Requests of one scenario differ in their values. */
const VARIANTS = 1000

// Commits do not wait for the disk: a slow one would hide what writes cost.
const cluster = await startPostgres({
  settings: { max_connections: '200', shared_buffers: '512MB', synchronous_commit: 'off' },
})
const postmaster = cluster.pid
console.log('seeding …')
const { users } = await seed(cluster.url, USERS)
const bare = await startBare({ url: cluster.url, users })
const server = await startBuilt(cluster.url, { SVC_DATABASE_MAX_CONNS: '25' }, 'terminal')
const idleMegabytes = server.residentBytes() / 2 ** 20

type Scenario = { name: string; bar: number; server: Asked[]; bare: Asked[] }
type User = (typeof users)[number]

const get = (path: string): Asked => ({ method: 'GET', path })
const post = (path: string, body: object): Asked => ({ method: 'POST', path, body: JSON.stringify(body) })
/** The same work for both: `make` gives the request to the server and the one to the bare handler. */
function each(name: string, bar: number, make: (i: number, user: User) => [Asked, Asked], count = VARIANTS): Scenario {
  const pairs = Array.from({ length: count }, (_, i) => {
    const user = users[i % users.length] as User
    return make(i, user).map((asked) => ({ ...asked, token: user.token })) as [Asked, Asked]
  })
  return { name, bar, server: pairs.map(([asked]) => asked), bare: pairs.map(([, asked]) => asked) }
}
const listOf = (table: string, i: number, more: string) =>
  get(`/api/collections/${table}?filter=${encodeURIComponent(`title>='n${i}'`)}&sort=-id&perPage=20&${more}`)
const pair = (i: number) => ({ label: `row ${i}`, n: i })
const thousandOf = ({ id }: User) => ({
  operations: Array.from({ length: 1000 }, (_, i) => ({
    method: 'create',
    body: { owner: id, project_id: (i % 100) + 1, title: `note ${i}` },
  })),
})

const scenarios: Scenario[] = [
  { name: 'health', bar: 0.95, server: [get('/health')], bare: [get('/health')] },
  each('read by id', 0.95, (i) => [get(`/api/collections/posts/${i + 1}`), get(`/read?${i + 1}`)]),
  each('list of 20, filter and sort', 0.95, (i) => [listOf('posts', i, 'skipTotal=true'), get(`/list?n${i}`)]),
  each('list of 20 under RLS', 0.95, (i) => [listOf('notes', i, 'skipTotal=true'), get(`/own?n${i}`)]),
  each('list, total and expand under RLS', 0.95, (i) => [listOf('notes', i, 'expand=project'), get(`/expanded?n${i}`)]),
  each('create under RLS', 0.5, (i) => [post('/api/collections/pairs', pair(i)), post('/create', pair(i))]),
  each('call of an immutable function', 0.95, (i) => [
    post('/api/rpc/add', { a: i, b: 1 }),
    post('/call', { a: i, b: 1 }),
  ]),
  each('call of a volatile function', 0.6, (i) => [
    post('/api/rpc/add_anew', { a: i, b: 1 }),
    post('/call-anew', { a: i, b: 1 }),
  ]),
  each(
    'batch of 1000 creates under RLS',
    0.5,
    (_, user) => [post('/api/collections/imports/batch', thousandOf(user)), post('/batch', thousandOf(user))],
    USERS,
  ),
].filter(({ name }) => wanted.length === 0 || wanted.some((word) => name.includes(word)))

const generate = hasWrk() ? wrk : load

async function measure(name: string, stage: Stage, requests: Asked[]): Promise<Measured & Figures> {
  const [node, postgres] = [processorMs(stage.pid), processorMs(postmaster, true)]
  const measured = await generate({ port: stage.port, requests, connections: CONNECTIONS, seconds: SECONDS })
  const failed = Object.keys(measured.statuses).filter((status) => !status.startsWith('2'))
  if (failed.length > 0) throw new Error(`${name} answered ${failed.join(', ')}`)
  return {
    ...measured,
    nodeUs: ((processorMs(stage.pid) - node) * 1000) / measured.count,
    postgresUs: ((processorMs(postmaster, true) - postgres) * 1000) / measured.count,
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
  users: USERS,
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
