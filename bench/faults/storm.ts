/**
 * SECONDS=600 npm run bench storm      THINK_MS=20: only with clients that pause so long; ONLY=a,b: only these attacks
 * Everything at once (see first-wave.ts, second-wave.ts), with `kill -9` of a server every 20 s and of a PostgreSQL process
 * every 45 s, beside 32 ordinary clients of two servers on one database, first without pauses and then with: how they
 * fare, what servers and PostgreSQL hold, and whether every acknowledged write is there.
 */
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { startEmbedded } from '../../src/db/setup/embedded/embedded.ts'
import { freePort } from '../../test/kit/free-port.ts'
import { build, elsewhere, type Stage, startOn } from '../kit/processes.ts'
import type { AttackSetup } from './attackers.ts'
import type { OrdinarySetup, Report, Verdict } from './ordinary.ts'
import { STORM_TABLES } from './tables.ts'

const SECONDS = Number(process.env['SECONDS'] ?? 60)
/** Milliseconds for which an ordinary client pauses between two calls; without pauses all 32 are at work all the time. */
const PAUSES = process.env['THINK_MS'] === undefined ? [0, 20] : [Number(process.env['THINK_MS'])]
const WARM_SECONDS = Math.min(10, SECONDS)
const IDLE_SECONDS = Math.min(15, SECONDS)
const KILL_SERVER_EVERY = 20
const KILL_BACKEND_EVERY = 45
/** The p99 of ordinary clients in the storm, as a multiple of theirs without it. */
const maxRatio = (thinkMs: number): number => (thinkMs === 0 ? 5 : 12)
/** Ordinary clients, who measure, have machines of their own and wait for no processor. Attackers with less than an equal share attack less. */
const [CLIENTS_NICE, ATTACKERS_NICE] = [-15, 0]
const MAX_SERVER_MB = 1_200
const MAX_BACKEND_MB = 400

const scratch = mkdtempSync(join(tmpdir(), 'svc-storm-'))
const cluster = await startEmbedded({ dataDir: join(scratch, 'pg'), log: () => {} })
const env = {
  SVC_SERVER_TRUSTED_PROXIES: '127.0.0.1',
  SVC_LOG_LEVEL: 'error',
  SVC_AUTH_TOKEN_DURATION: '12h',
  SVC_RATE_LIMIT_REGISTER: 'off',
  SVC_STORAGE_LOCAL_PATH: join(scratch, 'files'),
}
build()
const ports = [await freePort(), await freePort()]
const servers: Stage[] = []
for (const port of ports) servers.push(await startOn(port, cluster.url, env))
const api = `http://127.0.0.1:${ports[0]}`

const db = await openConnection({ url: cluster.url })
await db.query(STORM_TABLES)
await db.query('vacuum analyze')
await db.end()

const register = async (name: string): Promise<string> => {
  const answer = await fetch(`${api}/api/auth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email: `${name}@x.test`, password: 'long enough password' }),
  })
  return ((await answer.json()) as { token: string }).token
}
const tokens: string[] = []
for (let i = 0; i < 8; i++) tokens.push(await register(`ordinary${i}`))
const token = await register('attacker')
await uploadFile()

let isMissed = false
for (const thinkMs of PAUSES) await storm(thinkMs)

for (const server of servers) await server.stop()
await cluster.stop()
rmSync(scratch, { recursive: true, force: true })
if (isMissed) process.exitCode = 1

async function storm(thinkMs: number): Promise<void> {
  const ordinary = elsewhere('faults/ordinary.ts', CLIENTS_NICE)
  const setup: OrdinarySetup = { ports, databaseUrl: cluster.url, tokens, thinkMs, crowd: `${thinkMs}ms-` }
  ordinary.stdin?.write(`${JSON.stringify(setup)}\n`)
  const report = async () => JSON.parse(await say(ordinary, 'report')) as Report

  const attackers = elsewhere('faults/attackers.ts', ATTACKERS_NICE)
  let answered = ''
  attackers.stdout?.on('data', (chunk) => (answered += chunk))
  const attackersEnd = new Promise((resolve) => attackers.once('exit', resolve))
  await sleep(WARM_SECONDS * 1000) // until everything is compiled and prepared, the attackers too
  await report()
  await sleep(IDLE_SECONDS * 1000)
  const idle = await report()

  console.log(`\n${SECONDS} s of storm, clients with pauses of ${thinkMs} ms …`)
  const attack: AttackSetup = { ports, token, seconds: SECONDS }
  attackers.stdin?.end(JSON.stringify(attack))
  const held = await rage()
  const stormy = await report()
  await attackersEnd
  await sleep(Math.min(5, SECONDS) * 1000)
  const after = await report()
  const verdict = JSON.parse(await say(ordinary, 'verify')) as Verdict
  show(
    thinkMs,
    { idle, stormy, after, verdict, statuses: JSON.parse(answered || '{}') as Record<string, number> },
    held,
  )
}

type Held = { serverBytes: number; backendBytes: number; serverKills: number; backendKills: number }

/** Lets the attackers work, kills, and looks at what is held. */
async function rage(): Promise<Held> {
  const held: Held = { serverBytes: 0, backendBytes: 0, serverKills: 0, backendKills: 0 }
  for (let second = 1; second <= SECONDS; second++) {
    await sleep(1000)
    held.serverBytes = Math.max(held.serverBytes, ...servers.map((server) => server.peakBytes() ?? 0))
    held.backendBytes = Math.max(held.backendBytes, ...childrenOf(cluster.pid).map(ownBytes))
    if (second % KILL_SERVER_EVERY === 0 && second < SECONDS) {
      const which = held.serverKills++ % servers.length
      const port = ports[which] as number
      servers[which]?.kill()
      void sleep(1000)
        .then(() => startOn(port, cluster.url, env))
        .then((server) => {
          servers[which] = server
        })
    }
    if (second % KILL_BACKEND_EVERY === 0 && second < SECONDS) {
      held.backendKills++
      await killBackend().catch(() => {})
    }
  }
  return held
}

type Outcome = { idle: Report; stormy: Report; after: Report; verdict: Verdict; statuses: Record<string, number> }

function show(thinkMs: number, { idle, stormy, after, verdict, statuses }: Outcome, held: Held): void {
  const ms = (n: number) => n.toFixed(1)
  const kindsOf = ({ kinds }: Report) => Object.entries(kinds).map(([kind, p]) => `${kind} ${ms(p)}`)
  const told = (said: Report) =>
    `${String(said.count).padStart(7)} calls  p50 ${ms(said.p50)}  p99 ${ms(said.p99)}  p99.9 ${ms(said.p999)} ms   p99 of ${kindsOf(said).join(', ')}`
  const ok = (isOk: boolean): string => {
    isMissed ||= !isOk
    return isOk ? 'ok' : 'MISSED'
  }
  const sum = (counts: Record<string, number>) => Object.values(counts).reduce((a, b) => a + b, 0)
  const megabytes = (bytes: number) => Math.round(bytes / 2 ** 20)
  const bounded = (bytes: number, most: number) => `${megabytes(bytes)} MB (bar ${most}) ${ok(megabytes(bytes) < most)}`
  const [ratio, most] = [stormy.p99 / idle.p99, maxRatio(thinkMs)]
  const ratios = Object.entries(stormy.kinds).map(([kind, p]) => `${kind} ${(p / (idle.kinds[kind] ?? p)).toFixed(1)}`)
  const internal = statuses['500'] ?? 0
  console.log(`idle     ${told(idle)}`)
  console.log(`storm    ${told(stormy)}`)
  console.log(`after    ${told(after)}`)
  console.log(`p99 in the storm  ${ratio.toFixed(2)} × idle (bar ${most}) ${ok(ratio <= most)}; ${ratios.join(', ')}`)
  const failed = sum(stormy.failed)
  console.log(`errors            ${failed} (bar 0) ${ok(failed === 0)} ${JSON.stringify(stormy.failed)}`)
  console.log(`429 and 503       ${sum(stormy.refused)} ${JSON.stringify(stormy.refused)}`)
  console.log(`attackers         ${internal} answers of 500 (bar 0) ${ok(internal === 0)} ${JSON.stringify(statuses)}`)
  const kills = `${held.serverKills} servers and ${held.backendKills} PostgreSQL processes killed`
  console.log(`broken by kills   ${stormy.broken} calls of ${kills}`)
  console.log(`a server held     ${bounded(held.serverBytes, MAX_SERVER_MB)}`)
  console.log(`a backend held    ${bounded(held.backendBytes, MAX_BACKEND_MB)}`)
  const { acknowledged, missing } = verdict
  console.log(`writes            ${acknowledged} acknowledged, ${missing} missing ${ok(missing === 0)}`)
}

function say(child: ChildProcess, line: string): Promise<string> {
  return new Promise((resolve) => {
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
}

/** The file that attackers download. */
async function uploadFile(): Promise<void> {
  const form = new FormData()
  form.set('file', new Blob([Buffer.alloc(8 * 2 ** 20, 1)]), 'large.bin')
  const headers = { authorization: `Bearer ${tokens[0]}` }
  const answer = await fetch(`${api}/api/storage/storm`, { method: 'POST', headers, body: form })
  if (!answer.ok) throw new Error(`the upload answered ${answer.status}`)
}

/** PostgreSQL then ends all others, recovers, and is back within a second or two. */
async function killBackend(): Promise<void> {
  const client = await openConnection({ url: cluster.url })
  const { rows } = await client.query<{ pid: string }>(
    `select pid from pg_stat_activity where application_name = 'savanna' and pid <> pg_backend_pid() order by random() limit 1`,
  )
  if (rows[0]) process.kill(Number(rows[0].pid), 'SIGKILL')
  await client.end().catch(() => {})
}

function childrenOf(parent: number): string[] {
  return readdirSync('/proc').filter((pid) => {
    const status = /^\d+$/.test(pid) ? statusOf(pid) : ''
    return /PPid:\t(\d+)/.exec(status)?.[1] === String(parent)
  })
}

/** Memory that a process shares with no other. */
function ownBytes(pid: string): number {
  return Number(/RssAnon:\s+(\d+)/.exec(statusOf(pid))?.[1] ?? 0) * 1024
}

function statusOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return '' // it ended meanwhile
  }
}
