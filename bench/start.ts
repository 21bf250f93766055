/**
 * npm run bench start
 * How long until the server is healthy on a database that it knows, and what it holds when idle, beside the least there
 * can be: a process with node:http and pg that connects and asks PostgreSQL one question before it listens.
 */
import { spawn } from 'node:child_process'
import { freePort } from '../test/kit/free-port.ts'
import { startPostgres } from './kit/postgres.ts'
import { build, residentBytes } from './kit/processes.ts'
import { median } from './kit/report.ts'

const ROUNDS = 9
const MAX_RATIO = 2
const MAX_MEGABYTES = 65
/** Soon after the start, with what it left behind; and when V8 has had the time to clear that away. */
const SETTLED_AFTER_SECONDS = [3, 30] as const

const LEAST = `
import { createServer } from 'node:http'
import pg from 'pg'
const client = new pg.Client({ connectionString: process.env.SVC_DATABASE_URL })
await client.connect()
await client.query('select 1')
createServer((request, response) => response.end('ok')).listen(Number(process.env.SVC_SERVER_PORT), '127.0.0.1')
`

const cluster = await startPostgres()
build()

/** Milliseconds from the spawn to the first healthy answer, and the memory at moments after it. */
async function started(
  args: readonly string[],
  moments: readonly number[] = [],
): Promise<{ ms: number; megabytes: number[] }> {
  const port = await freePort()
  const env = {
    ...process.env,
    SVC_DATA_DIR: cluster.folder,
    SVC_DATABASE_URL: cluster.url,
    SVC_SERVER_PORT: String(port),
    // As operators have it: what a start does about it counts.
    SVC_ADMIN_PASSWORD: 'bench',
    SVC_LOG_LEVEL: 'error',
  }
  const began = performance.now()
  const child = spawn(process.execPath, args, {
    cwd: new URL('..', import.meta.url),
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const isHealthy = () => fetch(`http://127.0.0.1:${port}/health`).then((answer) => answer.ok)
  while (!(await isHealthy().catch(() => false))) {
    if (child.exitCode !== null) throw new Error(`${args.join(' ')} ended with ${child.exitCode}`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  const ms = performance.now() - began
  const megabytes: number[] = []
  for (const [i, seconds] of moments.entries()) {
    await new Promise((resolve) => setTimeout(resolve, (seconds - (moments[i - 1] ?? 0)) * 1000))
    megabytes.push(residentBytes(child.pid ?? 0) / 2 ** 20)
  }
  await new Promise((resolve) => {
    child.once('exit', resolve)
    child.kill()
  })
  return { ms, megabytes }
}

const server = ['dist/main.js', 'start']
const least = ['--input-type=module', '--eval', LEAST]
await started(server) // the first start makes the tables
const rounds: { server: number; least: number }[] = []
for (let round = 0; round < ROUNDS; round++) {
  rounds.push({ server: (await started(server)).ms, least: (await started(least)).ms })
}
const { megabytes } = await started(server, SETTLED_AFTER_SECONDS)
const most = Math.max(...megabytes)
const leastMegabytes = Math.max(...(await started(least, SETTLED_AFTER_SECONDS.slice(0, 1))).megabytes)

const ratio = median(rounds.map((round) => round.server / round.least))
const ms = (which: 'server' | 'least') => median(rounds.map((round) => round[which])).toFixed(0)
console.log(`healthy after     ${ms('server')} ms, node:http and pg alone ${ms('least')} ms`)
console.log(
  `ratio             ${ratio.toFixed(2)} (bar ${MAX_RATIO.toFixed(2)}) ${ratio <= MAX_RATIO ? 'ok' : 'ABOVE'}`,
)
const samples = SETTLED_AFTER_SECONDS.map((seconds, i) => `${megabytes[i]?.toFixed(0)} MB after ${seconds} s`).join(
  ', ',
)
console.log(`idle memory       ${samples}, node:http and pg alone ${leastMegabytes.toFixed(0)} MB`)
console.log(
  `at most           ${most.toFixed(0)} MB (bar ${MAX_MEGABYTES} MB) ${most <= MAX_MEGABYTES ? 'ok' : 'ABOVE'}`,
)
await cluster.stop()
