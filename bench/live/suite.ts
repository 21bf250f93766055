/**
 * npm run bench live [-- concerned unconcerned]
 * Live lists of many users on one table under row-level security. `concerned`: each write is in the lists of ten of them; the lag is
 * from the request of the writer to the diff. `unconcerned`: what lists that no write concerns cost writers. USERS, IDLE, SECONDS choose.
 */
import { openConnection } from '../../src/db/protocol/driver.ts'
import { startPostgres } from '../kit/postgres.ts'
import { script, startBuilt } from '../kit/processes.ts'
import { median } from '../kit/report.ts'

const wanted = process.argv.slice(3).filter((word) => !word.startsWith('--'))
const runs = (name: string): boolean => wanted.length === 0 || wanted.includes(name)
const USERS = Number(process.env['USERS'] ?? 1_000)
const IDLE = Number(process.env['IDLE'] ?? 10_000)
const SECONDS = Number(process.env['SECONDS'] ?? 20)
const WRITES_PER_SECOND = 100
const PER_TEAM = 10
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

type Report = { connected: number; diffs: number; changes: number; p50: number; p99: number; max: number }

const cluster = await startPostgres({ settings: { max_connections: '100', shared_buffers: '256MB' } })
const db = await openConnection({ url: cluster.url })
const server = await startBuilt(cluster.url, {
  SVC_DATABASE_MAX_CONNS: '20',
  SVC_ADMIN_PASSWORD: 'bench',
  SVC_LOG_LEVEL: 'error',
  SVC_AUTH_ARGON2_MEMORY: '1024',
  SVC_AUTH_ARGON2_TIME: '1',
  SVC_AUTH_TOKEN_DURATION: '12h',
  SVC_RATE_LIMIT_REGISTER: 'off',
  SVC_RATE_LIMIT_API: 'off',
  SVC_REALTIME_MAX_CONNECTIONS_PER_USER: '100000',
})
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

async function concerned(people: readonly User[]): Promise<void> {
  const lists = await listen(
    people.map(({ token }) => `/api/collections/team_notes?live=true&sort=-id&perPage=50&token=${token}`),
  )
  const startedAt = Date.now()
  const sent: Promise<{ status: number }>[] = []
  for (let i = 0; i < WRITES_PER_SECOND * SECONDS; i++) {
    const due = startedAt + (i * 1000) / WRITES_PER_SECOND
    if (due > Date.now()) await sleep(due - Date.now())
    const writer = people[i % people.length]
    const team = Math.floor((i % people.length) / PER_TEAM)
    sent.push(post('/api/collections/team_notes', { team, sent_at: Date.now(), body: 'x' }, writer?.token))
  }
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
  })
  lists.stop()
}

/** Writes as fast as eight writers can, without and with lists of others, in turns. */
async function unconcerned(people: readonly User[]): Promise<void> {
  const [writer] = people
  const rate = async (): Promise<number> => {
    let writes = 0
    const until = Date.now() + 5_000
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        while (Date.now() < until) {
          await post('/api/collections/own_notes', { body: 'x' }, writer?.token)
          writes++
        }
      }),
    )
    return writes / 5
  }
  await rate()
  const ratios: number[] = []
  for (let round = 0; round < 3; round++) {
    const alone = await rate()
    const paths = Array.from({ length: IDLE }, (_, i) => {
      const { token } = people[1 + (i % (people.length - 1))] as User
      return `/api/collections/own_notes?live=true&perPage=${1 + Math.floor(i / people.length)}&token=${token}`
    })
    const lists = await listen(paths)
    const beside = await rate()
    lists.stop()
    await sleep(2_000)
    ratios.push(beside / alone)
    show('unconcerned', { lists: IDLE, 'writes/s': Math.round(beside), alone: Math.round(alone) })
  }
  show('unconcerned', { 'of alone, median': median(ratios).toFixed(2), bar: 0.9 })
}

try {
  await db.query(`create table team_notes (id bigint generated always as identity primary key, team int, sent_at bigint, body text);
    create table teams (team int, person uuid, primary key (person, team));
    create index on team_notes (team, id);
    create table own_notes (id bigint generated always as identity primary key, owner uuid default svc.uid(), body text);
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
} finally {
  await server.stop()
  await db.end()
  await cluster.stop()
}
