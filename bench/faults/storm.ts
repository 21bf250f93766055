/**
 * SECONDS=600 npm run bench storm      THINK_MS=20: with clients that pause
 * Everything at once (see attackers.ts), with `kill -9` of a server every 20 s and of a PostgreSQL process every 45 s,
 * beside 32 ordinary clients of two servers on one database: how they fare, what the servers hold, and whether every
 * acknowledged write is there.
 */
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { startEmbedded } from '../../src/db/setup/embedded/embedded.ts'
import { freePort } from '../../test/kit/free-port.ts'
import { build, type Stage, script, startOn } from '../kit/processes.ts'
import type { AttackSetup } from './attackers.ts'
import type { OrdinarySetup, Report, Verdict } from './ordinary.ts'

const SECONDS = Number(process.env['SECONDS'] ?? 60)
/** Milliseconds for which an ordinary client pauses between two calls; without pauses all 32 are at work all the time. */
const THINK_MS = Number(process.env['THINK_MS'] ?? 0)
const IDLE_SECONDS = 15
const KILL_SERVER_EVERY = 20
const KILL_BACKEND_EVERY = 45
const MAX_RATIO = 5
const MAX_MEGABYTES = 1_200

const dataDir = mkdtempSync(join(tmpdir(), 'svc-storm-pg-'))
const cluster = await startEmbedded({ dataDir, log: () => {} })
const env = {
  SVC_SERVER_TRUSTED_PROXIES: '127.0.0.1',
  SVC_LOG_LEVEL: 'error',
  SVC_AUTH_TOKEN_DURATION: '12h',
  SVC_RATE_LIMIT_REGISTER: 'off',
}
build()
const ports = [await freePort(), await freePort()]
const servers: Stage[] = []
for (const port of ports) servers.push(await startOn(port, cluster.url, env))

const db = await openConnection({ url: cluster.url })
await db.query(`
  create table public.notes (id int primary key, label text not null, n int not null default 0);
  insert into public.notes select i, 'note ' || i, i from generate_series(1, 10000) i;
  create table public.journal (id text primary key, n int not null);
  insert into public.journal select 'kept ' || i, i from generate_series(1, 10000) i; -- plans for an empty table would stay
  create table public.lines (id bigint generated always as identity primary key, body text);
  create table public.large (id int primary key, n int not null default 0, body text not null);
  insert into public.large
    select i, 0, (select string_agg(md5((i * k)::text), '') from generate_series(1, 28125) k) from generate_series(1, 20) i;
  create function public.slow(seconds float8) returns void language sql as 'select pg_sleep(seconds)';
  create function public.wait_a_little(n int) returns int language plpgsql stable as
    $$ begin perform pg_sleep(0.4); return n; end $$;
  create view public.heavy as select id, label, public.wait_a_little(n) as n from public.notes where id <= 40`)
await db.query('vacuum analyze')
await db.end()

const register = async (name: string): Promise<string> => {
  const answer = await fetch(`http://127.0.0.1:${ports[0]}/api/auth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email: `${name}@x.test`, password: 'long enough password' }),
  })
  return ((await answer.json()) as { token: string }).token
}
const tokens: string[] = []
for (let i = 0; i < 8; i++) tokens.push(await register(`ordinary${i}`))
const token = await register('attacker')

const say = (child: ChildProcess, line: string): Promise<string> =>
  new Promise((resolve) => {
    let text = ''
    const heard = (chunk: Buffer) => {
      text += chunk
      if (!text.endsWith('\n')) return
      child.stdout?.off('data', heard)
      resolve(text)
    }
    child.stdout?.on('data', heard)
    child.stdin?.write(`${line}\n`)
  })
const ordinary = script('faults/ordinary.ts')
const setup: OrdinarySetup = { ports, databaseUrl: cluster.url, tokens, thinkMs: THINK_MS }
ordinary.stdin?.write(`${JSON.stringify(setup)}\n`)
const report = async () => JSON.parse(await say(ordinary, 'report')) as Report

await sleep(10_000) // until everything is compiled and prepared
await report()
await sleep(IDLE_SECONDS * 1000)
const idle = await report()

console.log(`${SECONDS} s of storm …`)
const attackers = script('faults/attackers.ts')
const attack: AttackSetup = { ports, token, seconds: SECONDS }
attackers.stdin?.end(JSON.stringify(attack))
const attackersEnd = new Promise((resolve) => attackers.once('exit', resolve))
let peak = 0
let [serverKills, backendKills] = [0, 0]
const remember = () => {
  peak = Math.max(peak, ...servers.map((server) => server.peakBytes() ?? 0))
}
for (let second = 1; second <= SECONDS; second++) {
  await sleep(1000)
  remember()
  if (second % KILL_SERVER_EVERY === 0) {
    const which = serverKills++ % servers.length
    const port = ports[which] as number
    servers[which]?.kill()
    void sleep(1000)
      .then(() => startOn(port, cluster.url, env))
      .then((server) => {
        servers[which] = server
      })
  }
  if (second % KILL_BACKEND_EVERY === 0) {
    backendKills++
    await killBackend().catch(() => {})
  }
}
const stormy = await report()
await attackersEnd
await sleep(5_000)
const after = await report()
const verdict = JSON.parse(await say(ordinary, 'verify')) as Verdict

const ms = (n: number) => n.toFixed(1)
const told = ({ count, p50, p99, p999, kinds }: Report) =>
  `${String(count).padStart(7)} calls  p50 ${ms(p50)}  p99 ${ms(p99)}  p99.9 ${ms(p999)} ms   p99 of ${Object.entries(
    kinds,
  )
    .map(([kind, p]) => `${kind} ${ms(p)}`)
    .join(', ')}`
const ok = (isOk: boolean) => (isOk ? 'ok' : 'MISSED')
const sum = (counts: Record<string, number>) => Object.values(counts).reduce((a, b) => a + b, 0)
console.log(`idle     ${told(idle)}`)
console.log(`storm    ${told(stormy)}`)
console.log(`after    ${told(after)}`)
const ratio = stormy.p99 / idle.p99
console.log(`p99 in the storm  ${ratio.toFixed(2)} × idle (bar ${MAX_RATIO}) ${ok(ratio <= MAX_RATIO)}`)
console.log(
  `errors            ${sum(stormy.failed)} (bar 0) ${ok(sum(stormy.failed) === 0)} ${JSON.stringify(stormy.failed)}`,
)
console.log(`429 and 503       ${sum(stormy.refused)} ${JSON.stringify(stormy.refused)}`)
console.log(
  `broken by kills   ${stormy.broken} of ${serverKills} servers and ${backendKills} PostgreSQL processes killed`,
)
console.log(
  `memory            ${(peak / 2 ** 20).toFixed(0)} MB at most in a server (bar ${MAX_MEGABYTES}) ${ok(peak / 2 ** 20 < MAX_MEGABYTES)}`,
)
console.log(
  `writes            ${verdict.acknowledged} acknowledged, ${verdict.missing} missing ${ok(verdict.missing === 0)}`,
)

for (const server of servers) await server.stop()
await cluster.stop()
rmSync(dataDir, { recursive: true, force: true })

/** PostgreSQL then ends all others, recovers, and is back within a second or two. */
async function killBackend(): Promise<void> {
  const client = await openConnection({ url: cluster.url })
  const { rows } = await client.query<{ pid: string }>(
    `select pid from pg_stat_activity where application_name = 'savanna' and pid <> pg_backend_pid() order by random() limit 1`,
  )
  if (rows[0]) process.kill(Number(rows[0].pid), 'SIGKILL')
  await client.end().catch(() => {})
}
