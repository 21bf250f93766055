/**
 * npm run bench watching
 * What watching a table costs statements on 100,000 of its rows: the time they take, and the processor time of their backend, beside
 * the same statements on a table that is not watched. Medians of seven rounds.
 */
import { openConnection } from '../src/db/protocol/driver.ts'
import { startPostgres } from './kit/postgres.ts'
import { processorMs, startBuilt } from './kit/processes.ts'
import { median } from './kit/report.ts'

const ROWS = 100_000
const ROUNDS = 7
const MOST = 4

type Cost = { wallMs: number; cpuMs: number }

const cluster = await startPostgres()
const server = await startBuilt(cluster.url)
const db = await openConnection({ url: cluster.url })
const { rows } = await db.query<{ pid: number }>('select pg_backend_pid() as pid')
const pid = Number(rows[0]?.pid)

for (const table of ['plain', 'watched']) {
  await db.query(`create table public.${table}
    (id int primary key, owner uuid, title text, done boolean, n int, at timestamptz default now())`)
}
await db.query(`select svc.watch('public.watched')`)

const statements = (table: string) => ({
  insert: `insert into public.${table} select i, gen_random_uuid(), 'title of row ' || i, false, i from generate_series(1, ${ROWS}) i`,
  update: `update public.${table} set n = n + 1`,
  delete: `delete from public.${table}`,
})

async function cost(statement: string): Promise<Cost> {
  await db.query('checkpoint')
  const [began, cpu] = [performance.now(), processorMs(pid)]
  await db.query(statement)
  return { wallMs: performance.now() - began, cpuMs: processorMs(pid) - cpu }
}

const costs = new Map<string, Cost[]>()
for (let round = 0; round < ROUNDS; round++) {
  for (const table of ['plain', 'watched']) {
    for (const [verb, statement] of Object.entries(statements(table))) {
      const name = `${table} ${verb}`
      costs.set(name, [...(costs.get(name) ?? []), await cost(statement)])
    }
    await db.query(`vacuum public.${table}`)
  }
}

for (const verb of ['insert', 'update', 'delete']) {
  const of = (table: string, measure: keyof Cost) =>
    median((costs.get(`${table} ${verb}`) ?? []).map((each) => each[measure]))
  const ratio = (measure: keyof Cost) => of('watched', measure) / of('plain', measure)
  const isOk = ratio('wallMs') <= MOST
  if (!isOk) process.exitCode = 1
  console.log(
    `${verb}   ${ratio('wallMs').toFixed(2)} times as long (bar ${MOST}) ${isOk ? 'ok' : 'MISSED'}   ${ratio('cpuMs').toFixed(2)} of the processor time`,
  )
}

await db.end()
await server.stop()
await cluster.stop()
