/**
 * npm run bench [requests] [-- --quick] [scenario…]
 * Starts everything itself: PostgreSQL, the built server, a bare handler that sends the very same statements, and
 * pgbench. Rounds are interleaved, so that a noisy machine disturbs all of them alike; what counts are the ratios.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { startEmbedded } from '../src/db/setup/embedded/embedded.ts'
import type { Sql } from '../src/db/sql.ts'
import { type Capture, captureSteps, seed } from './database.ts'
import { readNote } from './kernel.ts'
import { type Measured, request } from './load.ts'
import { findPgbench, load, pgbench, startBuilt, startScript } from './processes.ts'
import { type Line, median, print, save } from './report.ts'

const quick = process.argv.includes('--quick')
const wanted = process.argv.slice(3).filter((word) => !word.startsWith('--'))
const ROUNDS = quick ? 3 : 7
const SECONDS = quick ? 2 : 4
const CONNECTIONS = 32
const BARE_CONNECTIONS = 8

type Scenario = {
  name: string
  /** The bar of each comparison; 0 = shown only. */
  against: { name: string; path: string; bar: number; body?: string }[]
  /** What the server is asked. */
  request: Buffer
  /** Default: the server's. */
  port?: number
  connections?: number
}

const dataDir = mkdtempSync(join(tmpdir(), 'svc-bench-pg-'))
const cluster = await startEmbedded({
  dataDir,
  log: () => {},
  settings: { max_connections: '200', shared_buffers: '512MB' },
})
console.log('seeding …')
const { token, userId, noteId } = await seed(cluster.url)

const rendered = (statement: Sql) => {
  const { text, values } = statement.render()
  return { text, values: values.map(String) }
}

const list = `/api/collections/notes?filter=${encodeURIComponent("done=false AND title>='n'")}&sort=-id&perPage=20&skipTotal=true`
const expand = '/api/collections/notes?expand=project&sort=-id&perPage=20'
const rowsOf = (row: (i: number) => object) => Array.from({ length: 1000 }, (_, i) => row(i))
/** 1,000 rows as the API takes them, and the INSERT that somebody would write by hand for them. */
const bulk = (table: string, rows: object[]) => {
  const names = Object.keys(rows[0] ?? {})
  const places = rows.map((_, i) => `(${names.map((_, k) => `$${i * names.length + k + 1}`).join(', ')})`)
  return {
    asked: {
      method: 'POST',
      path: `/api/collections/${table}/batch`,
      token,
      body: JSON.stringify({ operations: rows.map((body) => ({ method: 'create', body })) }),
    },
    byHand: {
      text: `insert into public.${table} (${names.join(', ')}) values ${places.join(', ')} returning *`,
      values: rows.flatMap((row) => Object.values(row).map(String)),
    },
  }
}
const imports = rowsOf((i) => ({ owner: userId, project_id: (i % 100) + 1, title: `note ${i}` }))
const [importing, pairing] = [
  bulk('imports', imports),
  bulk(
    'pairs',
    rowsOf((i) => ({ label: `row ${i}`, n: i })),
  ),
]
const asked = {
  read: { method: 'GET', path: `/api/collections/notes/${noteId}`, token },
  list: { method: 'GET', path: list, token },
  expand: { method: 'GET', path: expand, token },
  batch: importing.asked,
}
const captured: Record<keyof typeof asked, Capture> = await captureSteps(cluster.url, asked)
console.log(
  `statements per request: ${Object.entries(captured)
    .map(([name, { steps }]) => `${name} ${steps.length - 1}`)
    .join(', ')}`,
)

const insertAsJson = {
  text: `with made as (
      insert into public.imports (owner, project_id, title)
      select * from json_to_recordset($1::json->'rows') as r(owner uuid, project_id int, title text) returning *
    )
    select json_agg(row_to_json(made))::text from made`,
  values: [JSON.stringify({ rows: imports })],
}
const bare = await startScript('bare.ts', {
  url: cluster.url,
  connections: BARE_CONNECTIONS,
  paths: {
    '/hello': { mode: 'hello', steps: [] },
    '/flight': { mode: 'flight', steps: [captured.read.steps[0], rendered(readNote(noteId))] },
    '/read': { mode: 'flight', steps: captured.read.steps },
    '/read-classic': { mode: 'classic', steps: captured.read.steps },
    '/list': { mode: 'flight', steps: captured.list.steps },
    '/expand': { mode: 'flight', steps: captured.expand.steps },
    '/batch': { mode: 'insert', steps: [importing.byHand] },
    '/pairs': { mode: 'insert', steps: [pairing.byHand] },
    '/batch-json': { mode: 'flight', steps: [captured.batch.steps[0], insertAsJson] },
  },
})
const kernel = await startScript('kernel.ts', { url: cluster.url, userId, noteId })
const server = await startBuilt(cluster.url, { SVC_DATABASE_MAX_CONNS: '25' })
const idleMegabytes = server.residentBytes() / 2 ** 20

const ask = (one: { method: string; path: string; token?: string; body?: string }) => request(one.method, one.path, one)
const scenarios: Scenario[] = [
  {
    name: 'health',
    request: request('GET', '/health'),
    against: [{ name: 'bare node:http', path: '/hello', bar: 0.8 }],
  },
  {
    name: 'one flight with identity',
    request: request('GET', '/flight', { token: 'any' }),
    port: kernel.port,
    against: [{ name: 'bare handler, same statements', path: '/flight', bar: 0.9 }],
  },
  {
    name: 'read by id, RLS, user token',
    request: ask(asked.read),
    against: [
      { name: 'bare handler, same statements', path: '/read', bar: 0.85 },
      { name: 'BEGIN, SET, SELECT, COMMIT', path: '/read-classic', bar: 2 },
    ],
  },
  {
    name: 'list of 20, filter and sort, RLS',
    request: ask(asked.list),
    against: [{ name: 'bare handler, same statements', path: '/list', bar: 0.85 }],
  },
  {
    name: 'list of 20, total, expand',
    request: ask(asked.expand),
    against: [{ name: 'bare handler, same statements', path: '/expand', bar: 0 }],
  },
  {
    name: 'batch of 1000 creates, RLS',
    request: ask(importing.asked),
    against: [
      { name: 'hand-written INSERT, same body', path: '/batch', bar: 0.5, body: importing.asked.body },
      { name: 'the same, rows in memory', path: '/batch', bar: 0.5 },
      { name: 'the same, one JSON parameter', path: '/batch-json', bar: 0.5 },
    ],
  },
  {
    // The least there can be beside the log: two short columns, no policy, no index but the key.
    name: 'batch of 1000 creates, bare table',
    request: ask(pairing.asked),
    against: [{ name: 'hand-written INSERT, same body', path: '/pairs', bar: 0, body: pairing.asked.body }],
  },
].filter(({ name }) => wanted.length === 0 || wanted.some((word) => name.includes(word)))

const toBare = ({ path, body }: Scenario['against'][number]): Buffer =>
  body === undefined ? request('GET', path) : request('POST', path, { body })

const measure = (port: number, one: Buffer, connections = CONNECTIONS) =>
  load({ port, requests: [one], connections, seconds: SECONDS })

const lines: Line[] = []
for (const scenario of scenarios) {
  const { name, request: toServer, against, connections, port = server.port } = scenario
  process.stdout.write(`${name} `)
  await measure(port, toServer, connections) // warm
  for (const mark of against) await measure(bare.port, toBare(mark), connections)
  const rounds: { own: Measured; marks: Measured[] }[] = []
  for (let round = 0; round < ROUNDS; round++) {
    process.stdout.write('.')
    const own = await measure(port, toServer, connections)
    const failed = Object.keys(own.statuses).filter((status) => !status.startsWith('2'))
    if (failed.length > 0) throw new Error(`${name} answered ${failed.join(', ')}`)
    const marks: Measured[] = []
    for (const mark of against) marks.push(await measure(bare.port, toBare(mark), connections))
    rounds.push({ own, marks })
  }
  console.log()
  for (const [i, mark] of against.entries()) {
    const figures = (measured: (Measured | undefined)[]) => ({
      rps: median(measured.map((one) => one?.rps ?? Number.NaN)),
      p50: median(measured.map((one) => one?.p50 ?? Number.NaN)),
      p99: median(measured.map((one) => one?.p99 ?? Number.NaN)),
    })
    lines.push({
      scenario: name,
      against: mark.name,
      ratio: median(rounds.map(({ own, marks }) => own.rps / (marks[i]?.rps ?? Number.NaN))),
      bar: mark.bar,
      server: figures(rounds.map(({ own }) => own)),
      mark: figures(rounds.map(({ marks }) => marks[i])),
    })
  }
}

const binary = findPgbench()
const facts: Record<string, unknown> = {
  node: process.version,
  cpus: cpus().length,
  memoryGB: Math.round(totalmem() / 2 ** 30),
  rounds: ROUNDS,
  secondsPerRound: SECONDS,
  connections: CONNECTIONS,
  idleMegabytes: Math.round(idleMegabytes),
}
if (binary && (wanted.length === 0 || wanted.includes('pgbench'))) {
  const four = ['begin;', captured.read.inlined[0] ?? '', captured.read.inlined[1] ?? '', 'commit;']
  facts['pgbenchReadTps'] = Math.round(await pgbench(binary, cluster.url, four, SECONDS))
  console.log(
    `pgbench, the same read as BEGIN, SET, SELECT, COMMIT without HTTP: ${facts['pgbenchReadTps']} transactions/s`,
  )
} else if (!binary) console.log('pgbench is not installed')

print(lines)
console.log(`\nresident memory of the idle server: ${Math.round(idleMegabytes)} MB`)
save(wanted.length === 0 ? 'latest' : `partial-${wanted.join('-')}`, lines, facts)
await Promise.all([bare.stop(), kernel.stop(), server.stop()])
await cluster.stop()
rmSync(dataDir, { recursive: true, force: true })
