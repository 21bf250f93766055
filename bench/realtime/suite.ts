/**
 * npm run bench realtime [-- fan-out singles row-security idle idle-sockets identities]
 * Lag is from the request of the writer to the arrival at the reader. Starts everything itself: PostgreSQL, the built server, a bare node:http fan-out as the mark, and the clients.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { startPostgres } from '../kit/postgres.ts'
import { residentBytes, startBuilt } from '../kit/processes.ts'
import { median } from '../kit/report.ts'

const wanted = process.argv.slice(3)
const runs = (name: string): boolean => wanted.length === 0 || wanted.includes(name)
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const here = (name: string) => new URL(name, import.meta.url).pathname

type Report = {
  connected: number
  closed: number
  events: number
  bytes: number
  p50: number
  p99: number
  max: number
}
type Clients = { pid: number; report(): Promise<Report>; stop(): void }

const children: ChildProcess[] = []
function script(name: string): ChildProcess {
  const child = spawn(process.execPath, ['--import', 'tsx', here(name)], { stdio: ['pipe', 'pipe', 'inherit'] })
  children.push(child)
  return child
}
const line = (child: ChildProcess): Promise<string> =>
  new Promise((resolve) => child.stdout?.once('data', (chunk: Buffer) => resolve(chunk.toString())))

type Ways = { perSecond?: number; lag?: boolean; message?: string }

async function clients(
  port: number,
  paths: string[],
  { perSecond = 500, lag = false, message }: Ways = {},
): Promise<Clients> {
  const child = script('stream-client.ts')
  child.stdin?.write(`${JSON.stringify({ port, paths, perSecond, lag, message })}\n`)
  const report = async (): Promise<Report> => {
    const answer = line(child)
    child.stdin?.write('report\n')
    return JSON.parse(await answer) as Report
  }
  for (let waited = 0; waited < 120; waited++) {
    await sleep(500)
    if ((await report()).connected >= paths.length)
      return { pid: child.pid ?? 0, report, stop: () => child.stdin?.end() }
  }
  throw new Error('the clients did not connect')
}

const cluster = await startPostgres({ settings: { max_connections: '100', shared_buffers: '256MB' } })
const db = await openConnection({ url: cluster.url })

const env = {
  SVC_DATABASE_MAX_CONNS: '20',
  SVC_ADMIN_PASSWORD: 'bench',
  SVC_LOG_LEVEL: 'error',
  SVC_AUTH_ARGON2_MEMORY: '1024',
  SVC_AUTH_ARGON2_TIME: '1',
  SVC_AUTH_TOKEN_DURATION: '12h',
  SVC_RATE_LIMIT_REGISTER: 'off',
  SVC_RATE_LIMIT_ADMIN_LOGIN: 'off',
  SVC_REALTIME_MAX_CONNECTIONS_PER_USER: '100000',
}
const server = await startBuilt(cluster.url, env).catch(async (error: unknown) => {
  await db.end()
  await cluster.stop()
  throw error
})
const base = `http://127.0.0.1:${server.port}`
const post = async (path: string, body: object, token?: string): Promise<{ status: number; body: unknown }> => {
  const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) }
  const answer = await fetch(base + path, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: answer.status, body: await answer.json().catch(() => undefined) }
}
const { token: admin } = (await post('/api/admin/auth', { password: 'bench' })).body as { token: string }
type User = { token: string; user: { id: string } }
const register = async (i: number): Promise<User> =>
  (await post('/api/auth/register', { email: `u${i}@example.com`, password: 'long enough password' })).body as User
async function users(count: number): Promise<User[]> {
  const made: User[] = []
  for (let i = 0; i < count; i += 20)
    made.push(...(await Promise.all(Array.from({ length: 20 }, (_, k) => register(i + k)))))
  return made.slice(0, count)
}
await db.query(`create table fan (id bigint generated always as identity primary key, body text);
  create table fan_sockets (like fan including all);
  create table timed (id bigint generated always as identity primary key, sent_at bigint, body text);
  create table own (id bigint generated always as identity primary key, owner uuid, sent_at bigint, body text);
  alter table own enable row level security;
  create policy own on own using (owner = svc.uid())`)
await sleep(1_000)

const show = (name: string, figures: Record<string, string | number>): void =>
  console.log(
    `${name.padEnd(14)} ${Object.entries(figures)
      .map(([key, value]) => `${key} ${value}`)
      .join('   ')}`,
  )

/** Processor seconds that the server and PostgreSQL have used; the machine may be busy with other things. */
function used(): { server: number; postgres: number } {
  const cpu = { server: 0, postgres: 0 }
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const [head = '', rest = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
      const fields = rest.split(' ')
      const seconds = (Number(fields[11]) + Number(fields[12])) / 100
      if (head.includes('(postgres') && readlinkSync(`/proc/${pid}/cwd`).startsWith(cluster.folder))
        cpu.postgres += seconds
      else if (readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`SVC_SERVER_PORT=${server.port}`))
        cpu.server += seconds
    } catch {
      // gone meanwhile, or not ours to read
    }
  }
  return cpu
}

/** Cores in use since `before`. */
function cores(before: { server: number; postgres: number; at: number }): Record<string, string> {
  const now = used()
  const seconds = (performance.now() - before.at) / 1000
  return {
    'server cores': ((now.server - before.server) / seconds).toFixed(2),
    'postgres cores': ((now.postgres - before.postgres) / seconds).toFixed(2),
  }
}

async function fanOut(): Promise<void> {
  const SUBSCRIBERS = 500
  const EVENTS = 4_000
  const ROUNDS = 7
  const bareProcess = script('fan-out.ts')
  const barePort = Number(await line(bareProcess))
  const bare = await clients(
    barePort,
    Array.from({ length: SUBSCRIBERS }, () => '/'),
  )
  const own = await clients(
    server.port,
    Array.from({ length: SUBSCRIBERS }, () => `/api/realtime?tables=fan&token=${admin}`),
  )
  const sockets = await clients(
    server.port,
    Array.from({ length: SUBSCRIBERS }, () => `/api/realtime/ws?token=${admin}`),
    { message: subscribeTo('fan_sockets') },
  )
  const operations = Array.from({ length: 1_000 }, () => ({ method: 'create', body: { body: 'x'.repeat(100) } }))
  const received = async (from: Clients, send: () => Promise<unknown>): Promise<number> => {
    await from.report()
    const startedAt = performance.now()
    await send()
    let events = 0
    while (events < SUBSCRIBERS * EVENTS) {
      await sleep(20)
      events += (await from.report()).events
      if (performance.now() - startedAt > 120_000) throw new Error(`only ${events} events arrived`)
    }
    return (SUBSCRIBERS * EVENTS * 1000) / (performance.now() - startedAt)
  }
  const write = (table: string) => async () => {
    for (let i = 0; i < EVENTS; i += 1_000) {
      const { status } = await post(`/api/collections/${table}/batch`, { operations }, admin)
      if (status !== 200) throw new Error(`batch answered ${status}`)
    }
  }
  const ratios: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const mark = await received(bare, () => fetch(`http://127.0.0.1:${barePort}/?count=${EVENTS}`, { method: 'POST' }))
    const transports = {
      streams: () => received(own, write('fan')),
      sockets: () => received(sockets, write('fan_sockets')),
    }
    // In turns, so that what one leaves behind is as often the other's.
    const order = round % 2 === 0 ? (['streams', 'sockets'] as const) : (['sockets', 'streams'] as const)
    const rates = { streams: 0, sockets: 0 }
    for (const transport of order) rates[transport] = await transports[transport]()
    ratios.push(rates.sockets / rates.streams)
    show('fan-out', {
      'deliveries/s': Math.round(rates.streams),
      bare: Math.round(mark),
      ratio: (rates.streams / mark).toFixed(2),
      'over sockets': Math.round(rates.sockets),
      'of streams': (rates.sockets / rates.streams).toFixed(2),
    })
  }
  show('over sockets', { 'of streams, median': median(ratios).toFixed(2), bar: 0.9 })
  for (const group of [bare, own, sockets]) group.stop()
}

/** Writes one by one, as applications make them: what matters is how few socket writes they become. */
async function singles(): Promise<void> {
  const SUBSCRIBERS = 500
  const SECONDS = 8
  const path = `/api/realtime?tables=timed&token=${admin}`
  const streams = await clients(
    server.port,
    Array.from({ length: SUBSCRIBERS }, () => path),
    { lag: true },
  )
  await streams.report()
  const before = { ...used(), at: performance.now() }
  const until = Date.now() + SECONDS * 1000
  let writes = 0
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      while (Date.now() < until) {
        await post('/api/collections/timed', { sent_at: Date.now(), body: 'x'.repeat(100) }, admin)
        writes++
      }
    }),
  )
  const load = cores(before)
  await sleep(1_000)
  const { events, p50, p99, max } = await streams.report()
  show('singles', {
    'writes/s': Math.round(writes / SECONDS),
    'deliveries/s': Math.round(events / SECONDS),
    delivered: `${events}/${writes * SUBSCRIBERS}`,
    'lag p50': p50,
    p99,
    max,
    ...load,
  })
  streams.stop()
}

async function rowSecurity(people: readonly User[]): Promise<void> {
  const WRITES_PER_SECOND = 100
  const SECONDS = 20
  const streams = await clients(
    server.port,
    people.map(({ token }) => `/api/realtime?tables=own&token=${token}`),
    { lag: true },
  )
  await streams.report()
  const before = { ...used(), at: performance.now() }
  const startedAt = Date.now()
  const sent: Promise<unknown>[] = []
  for (let i = 0; i < WRITES_PER_SECOND * SECONDS; i++) {
    const due = startedAt + (i * 1000) / WRITES_PER_SECOND
    if (due > Date.now()) await sleep(due - Date.now())
    const owner = people[i % people.length]?.user.id
    sent.push(post('/api/collections/own', { owner, sent_at: Date.now(), body: 'x' }, admin))
  }
  await Promise.all(sent)
  const load = cores(before)
  await sleep(10_000)
  const { events, p50, p99, max } = await streams.report()
  show('row-security', {
    identities: people.length,
    'writes/s': WRITES_PER_SECOND,
    delivered: `${events}/${sent.length}`,
    'lag p50': p50,
    p99,
    max,
    ...load,
  })
  streams.stop()
}

const subscribeTo = (table: string): string => JSON.stringify({ type: 'subscribe', tables: [table], ref: 1 })

/** In a process of its own: memory that another scenario left behind would be taken for that of connections. */
async function idle(name: string, path: string, ways: Ways): Promise<void> {
  const STREAMS = Number(process.env['IDLE_STREAMS'] ?? 10_000)
  const fresh = await startBuilt(cluster.url, env)
  await sleep(3_000)
  const before = fresh.residentBytes()
  const half = Array.from({ length: STREAMS / 2 }, () => `${path}token=${admin}`)
  const groups = [
    await clients(fresh.port, half, { perSecond: 1_000, ...ways }),
    await clients(fresh.port, half, { perSecond: 1_000, ...ways }),
  ]
  await sleep(5_000)
  const after = fresh.residentBytes()
  const perStream = (after - before) / STREAMS / 1024
  await post('/api/collections/fan', { body: 'hello' }, admin)
  await sleep(3_000)
  const reports = await Promise.all(groups.map((group) => group.report()))
  show(name, {
    connections: STREAMS,
    'kB each': perStream.toFixed(1),
    bar: 12,
    'total MB': Math.round(after / 2 ** 20),
    delivered: reports.reduce((sum, { events }) => sum + events, 0),
    'client MB': Math.round(groups.reduce((sum, { pid }) => sum + residentBytes(pid), 0) / 2 ** 20),
  })
  for (const group of groups) group.stop()
  await fresh.stop()
}

/** Every identity receives as many events as PostgreSQL says it can see rows. */
async function identities(people: readonly User[]): Promise<void> {
  const WRITES = 5_000
  const readers = await Promise.all(people.map(({ token }) => countingReader(token)))
  await db.query('delete from own')
  for (let i = 0; i < WRITES; i += 500) {
    const operations = Array.from({ length: 500 }, () => ({
      method: 'create',
      body: { owner: people[Math.floor(Math.random() * people.length)]?.user.id, body: 'x' },
    }))
    await post('/api/collections/own/batch', { operations }, admin)
  }
  const { rows } = await db.query<{ owner: string; ids: string }>(
    `select owner, string_agg(id::text, ',' order by id) as ids from own group by owner`,
  )
  const expected = new Map(rows.map(({ owner, ids }) => [owner, ids]))
  let wrong = people.length
  for (let waited = 0; waited < 300 && wrong > 0; waited++) {
    await sleep(200)
    wrong = people.filter(({ user }, i) => readers[i]?.ids() !== (expected.get(user.id) ?? '')).length
  }
  show('identities', { identities: people.length, writes: WRITES, 'wrong sets': wrong })
  for (const reader of readers) reader?.close()
}

async function countingReader(token: string): Promise<{ ids(): string; close(): void }> {
  const abort = new AbortController()
  const answer = await fetch(`${base}/api/realtime?tables=own&token=${token}`, { signal: abort.signal })
  let text = ''
  void (async () => {
    for await (const chunk of answer.body ?? []) text += Buffer.from(chunk).toString()
  })().catch(() => undefined)
  return {
    ids: () =>
      [...text.matchAll(/"id": (\d+)/g)]
        .map(([, id]) => Number(id))
        .sort((a, b) => a - b)
        .join(),
    close: () => abort.abort(),
  }
}

try {
  if (runs('fan-out')) await fanOut()
  if (runs('singles')) await singles()
  if (runs('idle')) await idle('idle', '/api/realtime?tables=fan&', {})
  if (runs('idle-sockets')) await idle('idle-sockets', '/api/realtime/ws?', { message: subscribeTo('fan') })
  const people = runs('row-security') || runs('identities') ? await users(1_000) : []
  if (runs('row-security')) await rowSecurity(people)
  if (runs('identities')) await identities(people.slice(0, 500))
} finally {
  for (const child of children) child.kill()
  await server.stop()
  await db.end()
  await cluster.stop()
}
