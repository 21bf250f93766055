/**
 * npm run bench live [-- concerned unconcerned broadcast]
 * Live lists of many users on one table under row-level security. `concerned`: each write is in the lists of ten of them; the lag is
 * from the request of the writer to the diff. `unconcerned`: what lists that no write concerns cost writers. `broadcast`: messages of a
 * channel to 200 members at two processes, beside changes of a table to as many. USERS, IDLE, SECONDS, ROUNDS choose.
 */

import { WebSocket } from 'ws'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { freePort } from '../../test/kit/free-port.ts'
import { startPostgres } from '../kit/postgres.ts'
import { processorMs, script, startBuilt, startOn } from '../kit/processes.ts'
import { type Asked, caller } from '../kit/raw.ts'
import { median } from '../kit/report.ts'

const wanted = process.argv.slice(3).filter((word) => !word.startsWith('--'))
const runs = (name: string): boolean => wanted.length === 0 || wanted.includes(name)
const USERS = Number(process.env['USERS'] ?? 1_000)
const IDLE = Number(process.env['IDLE'] ?? 10_000)
const SECONDS = Number(process.env['SECONDS'] ?? 20)
const ROUNDS = Number(process.env['ROUNDS'] ?? 3)
const WRITES_PER_SECOND = 100
const PER_TEAM = 10
/** A list without subscribers is kept for 30 s. */
const RESTED_MS = 32_000
const PHASE_MS = 5_000
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

type Report = { connected: number; diffs: number; changes: number; p50: number; p99: number; max: number }

const cluster = await startPostgres({ settings: { max_connections: '100', shared_buffers: '256MB' } })
const db = await openConnection({ url: cluster.url })
const settings = {
  SVC_DATABASE_MAX_CONNS: '20',
  SVC_ADMIN_PASSWORD: 'bench',
  SVC_LOG_LEVEL: 'error',
  SVC_AUTH_ARGON2_MEMORY: '1024',
  SVC_AUTH_ARGON2_TIME: '1',
  SVC_AUTH_TOKEN_DURATION: '12h',
  SVC_RATE_LIMIT_REGISTER: 'off',
  SVC_RATE_LIMIT_API: 'off',
  SVC_REALTIME_MAX_CONNECTIONS_PER_USER: '100000',
  SVC_REALTIME_OPEN_CHANNELS: 'public:*',
  SVC_REALTIME_CHANNEL_RATE: '100000',
  SVC_REALTIME_CHANNEL_BYTES: '1GB',
}
const server = await startBuilt(cluster.url, settings)
const base = `http://127.0.0.1:${server.port}`

async function post(path: string, body: object, token?: string): Promise<{ status: number; body: unknown }> {
  const answer = await fetch(base + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
    body: JSON.stringify(body),
  })
  return { status: answer.status, body: await answer.json() }
}

type User = { token: string; user: { id: string } }
const register = async (i: number): Promise<User> =>
  (await post('/api/auth/register', { email: `u${i}@example.com`, password: 'long enough password' })).body as User

async function listen(paths: readonly string[]): Promise<{ report(): Promise<Report>; stop(): void }> {
  const child = script('live/client.ts')
  const report = (): Promise<Report> =>
    new Promise((resolve) => {
      child.stdout?.once('data', (chunk: Buffer) => resolve(JSON.parse(chunk.toString()) as Report))
      child.stdin?.write('report\n')
    })
  child.stdin?.write(`${JSON.stringify({ port: server.port, paths })}\n`)
  for (let waited = 0; waited < 600; waited++) {
    await sleep(500)
    if ((await report()).connected >= paths.length) return { report, stop: () => child.stdin?.end() }
  }
  throw new Error('the lists did not open')
}

const show = (name: string, figures: Record<string, string | number>): void =>
  console.log(
    `${name.padEnd(14)} ${Object.entries(figures)
      .map(([key, value]) => `${key} ${value}`)
      .join('   ')}`,
  )

/** Processor time of the server and of PostgreSQL, in parts of one core, since it was begun. */
function processorTime(): () => string {
  const pids = [server.pid, cluster.pid]
  const before = pids.map((pid) => processorMs(pid, true))
  const beganAt = Date.now()
  return () =>
    pids.map((pid, i) => ((processorMs(pid, true) - (before[i] ?? 0)) / (Date.now() - beganAt)).toFixed(2)).join(' + ')
}

async function concerned(people: readonly User[]): Promise<void> {
  const lists = await listen(
    people.map(({ token }) => `/api/collections/team_notes?live=true&sort=-id&perPage=50&token=${token}`),
  )
  const teams = Math.floor(people.length / PER_TEAM)
  const startedAt = Date.now()
  const cores = processorTime()
  const sent: Promise<{ status: number }>[] = []
  for (let i = 0; i < WRITES_PER_SECOND * SECONDS; i++) {
    const due = startedAt + (i * 1000) / WRITES_PER_SECOND
    if (due > Date.now()) await sleep(due - Date.now())
    // Each write concerns ten lists, and the next one ten others: nothing is gained by reading them once for several writes.
    const team = i % teams
    const writer = people[team * PER_TEAM + (Math.floor(i / teams) % PER_TEAM)]
    sent.push(post('/api/collections/team_notes', { team, sent_at: Date.now(), body: 'x' }, writer?.token))
  }
  const used = cores()
  const refused = (await Promise.all(sent)).filter(({ status }) => status !== 201).length
  await sleep(3_000)
  const { diffs, changes, p50, p99, max } = await lists.report()
  const delivered = `${changes}/${sent.length * PER_TEAM}`
  show('concerned', {
    lists: people.length,
    'writes/s': WRITES_PER_SECOND,
    refused,
    diffs,
    changes: delivered,
    p50,
    p99,
    bar: 1_000,
    max,
    'cores, server + PostgreSQL': used,
  })
  lists.stop()
}

/** Writes as fast as eight writers can, without and with lists of others, in turns. */
async function unconcerned(people: readonly User[]): Promise<void> {
  const asked: Asked = {
    method: 'POST',
    path: '/api/collections/own_notes',
    token: people[0]?.token ?? '',
    body: JSON.stringify({ body: 'x' }),
  }
  /** Writes per second, and microseconds of processor time of the server and of PostgreSQL for each. */
  const rate = async () => {
    let writes = 0
    const spent = (): number[] => [server.pid, cluster.pid].map((pid) => processorMs(pid, true))
    const before = spent()
    const until = Date.now() + PHASE_MS
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        const { ask, end } = caller()
        while (Date.now() < until) {
          const { status } = await ask(server.port, asked)
          if (status !== 201) throw new Error(`a write answered ${status}`)
          writes++
        }
        end()
      }),
    )
    const costs = spent().map((ms, i) => ((ms - (before[i] ?? 0)) * 1000) / writes)
    return {
      rate: writes / (PHASE_MS / 1000),
      cost: costs.reduce((sum, one) => sum + one),
      split: costs.map(Math.round).join(' + '),
    }
  }
  const listTo = (count: number) =>
    listen(
      Array.from({ length: count }, (_, i) => {
        const { token } = people[1 + (i % (people.length - 1))] as User
        return `/api/collections/own_notes?live=true&perPage=${1 + Math.floor(i / people.length)}&token=${token}`
      }),
    )
  await rate()
  const ratios: number[] = []
  const costs: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const alone = await rate()
    const single = await listTo(1)
    const one = await rate()
    single.stop()
    const lists = await listTo(IDLE)
    const beside = await rate()
    lists.stop()
    await sleep(RESTED_MS)
    ratios.push(beside.rate / alone.rate)
    costs.push(alone.cost / beside.cost)
    for (const [count, { rate: writes, split }] of [
      [0, alone],
      [1, one],
      [IDLE, beside],
    ] as const)
      show('unconcerned', { lists: count, 'writes/s': Math.round(writes), 'µs a write, server + PostgreSQL': split })
  }
  const inProcessorTime = median(costs).toFixed(2)
  show('unconcerned', { 'of alone, median': median(ratios).toFixed(2), bar: 0.9, 'in processor time': inProcessorTime })
}

const MEMBERS = 200
const MESSAGES = 2_000
/** Messages under way at a time. */
const AHEAD = 100

/** How many a second are heard when `send` makes them as fast as it can. */
async function deliveries(
  ports: readonly number[],
  token: string,
  join: object,
  heard: string,
  send: () => Promise<void>,
) {
  const child = script('live/members.ts')
  const report = (): Promise<{ ready: number; heard: number }> =>
    new Promise((resolve) => {
      child.stdout?.once('data', (chunk: Buffer) => resolve(JSON.parse(chunk.toString())))
      child.stdin?.write('report\n')
    })
  child.stdin?.write(`${JSON.stringify({ ports, token, members: MEMBERS, join, heard })}\n`)
  while ((await report()).ready < MEMBERS) await sleep(100)
  const beganAt = performance.now()
  await send()
  let before = -1
  let now = (await report()).heard
  // What was sent at most once may have been lost.
  for (let idle = 0; now < MEMBERS * MESSAGES && idle < 20; idle = now === before ? idle + 1 : 0) {
    await sleep(50)
    before = now
    now = (await report()).heard
  }
  const seconds = (performance.now() - beganAt) / 1000
  child.stdin?.end()
  return { rate: now / seconds, part: now / (MEMBERS * MESSAGES) }
}

/** Sends messages over one WebSocket, some of them ahead of their replies. */
const broadcaster = (port: number, token: string) => (): Promise<void> =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/api/realtime/ws`)
    let [sent, answered] = [0, 0]
    const send = (): void => {
      for (; sent < MESSAGES && sent < answered + AHEAD; sent++) {
        const payload = { x: sent, y: 'a cursor somewhere', note: 'x'.repeat(100) }
        socket.send(JSON.stringify({ type: 'send', channel: 'public:bench', event: 'moved', payload, ref: 10 + sent }))
      }
    }
    socket.on('error', reject)
    socket.on('open', () => {
      socket.send(JSON.stringify({ type: 'auth', token, ref: 1 }))
      send()
    })
    socket.on('message', (data: Buffer) => {
      if (!data.includes('"reply"') || data.includes('"ref":1,') || data.includes('"ref":1}')) return
      answered++
      if (answered < MESSAGES) return send()
      socket.close()
      resolve()
    })
  })

async function broadcast([person]: readonly User[]): Promise<void> {
  const token = person?.token ?? ''
  const other = await startOn(await freePort(), cluster.url, settings)
  const ports = [server.port, other.port]
  await db.query(`create table moves (id bigint generated always as identity primary key, x int, y text, note text);
    grant all on moves to svc_authenticated; select svc.watch('moves')`)
  await sleep(2_000)
  const write = async (): Promise<void> => {
    for (let n = 0; n < MESSAGES; n += AHEAD) {
      await db.query(
        `insert into moves (x, y, note) select i, 'a cursor somewhere', repeat('x', 100) from generate_series(1, ${AHEAD}) i`,
      )
    }
  }
  const ratios: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const changes = await deliveries(ports, token, { type: 'subscribe', tables: ['moves'] }, 'event', write)
    const send = broadcaster(server.port, token)
    const messages = await deliveries(ports, token, { type: 'join', channel: 'public:bench' }, 'message', send)
    ratios.push(messages.rate / changes.rate)
    const heard = `${(messages.part * 100).toFixed(1)} %`
    const rate = Math.round(messages.rate)
    show('broadcast', { members: MEMBERS, 'deliveries/s': rate, heard, 'of changes': Math.round(changes.rate) })
  }
  show('broadcast', { 'of changes, median': median(ratios).toFixed(2), bar: 0.5 })
  await other.stop()
}

try {
  await db.query(`create table team_notes (id bigint generated always as identity primary key, team int, sent_at bigint, body text);
    create table teams (team int, person uuid, primary key (person, team));
    create index on team_notes (team, id);
    create table own_notes (id bigint generated always as identity primary key, owner uuid default svc.uid(), body text);
    create index on own_notes (owner, id);
    alter table team_notes enable row level security;
    create policy members on team_notes using (team in (select t.team from teams t where t.person = svc.uid()));
    alter table own_notes enable row level security;
    create policy own on own_notes using (owner = svc.uid());
    grant all on team_notes, own_notes to svc_authenticated; grant select on teams to svc_authenticated`)
  const people: User[] = []
  for (let i = 0; i < USERS; i += 20) {
    people.push(...(await Promise.all(Array.from({ length: Math.min(20, USERS - i) }, (_, k) => register(i + k)))))
  }
  for (const [i, { user }] of people.entries()) {
    await db.query('insert into teams values ($1, $2)', [Math.floor(i / PER_TEAM), user.id])
  }
  await sleep(1_000)
  if (runs('concerned')) await concerned(people)
  if (runs('unconcerned')) await unconcerned(people)
  if (runs('broadcast')) await broadcast(people)
} finally {
  await server.stop()
  await db.end()
  await cluster.stop()
}
