/**
 * npm run bench faults [-- --quick]
 * No request waits for another's statement: writes to other rows while one row is locked, and reads while strangers
 * ask for slow lists and slow functions.
 */
import { openConnection } from '../../src/db/protocol/driver.ts'
import type { Measured } from '../kit/load.ts'
import { startPostgres } from '../kit/postgres.ts'
import { load, startBuilt } from '../kit/processes.ts'
import type { Asked } from '../kit/raw.ts'

const quick = process.argv.includes('--quick')
const LOCK_SECONDS = quick ? 6 : 15
const SLOW_SECONDS = quick ? 8 : 20
const ROWS = 2000

const cluster = await startPostgres()
const server = await startBuilt(cluster.url)
const other = await openConnection({ url: cluster.url })
await other.query(`
  create table public.rows (id int primary key, n int not null default 0, label text not null);
  insert into public.rows select i, 0, 'row ' || i from generate_series(1, ${ROWS}) i;
  create function public.slow(seconds float8) returns void language sql as 'select pg_sleep(seconds)';
  create function public.wait_a_little(n int) returns int language plpgsql stable as
    $$ begin perform pg_sleep(0.4); return n; end $$;
  create view public.heavy as select id, label, public.wait_a_little(n) as n from public.rows where id <= 40`)
await other.query('vacuum analyze public.rows')
await new Promise((resolve) => setTimeout(resolve, 1500)) // the schema is known
const { port } = server

const get = (path: string): Asked => ({ method: 'GET', path })
const read = (i: number) => get(`/api/collections/rows/${1 + (i % ROWS)}`)
const patch = (id: number): Asked => ({ method: 'PATCH', path: `/api/collections/rows/${id}`, body: `{"n":${id}}` })
const many = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i))

const told = ({ rps, p50, p99, p999, statuses, errors }: Measured) =>
  `${rps.toFixed(0).padStart(6)}/s  p50 ${p50.toFixed(1)}  p99 ${p99.toFixed(1)}  p99.9 ${p999.toFixed(1)} ms  ${JSON.stringify(statuses)}${errors ? `  ${errors} broken` : ''}`
const verdict = (isOk: boolean) => (isOk ? 'ok' : 'ABOVE')

console.log(`60 clients write other rows while one row is locked for ${LOCK_SECONDS} s and asked for all the time`)
const writes = many(1000, (i) => patch(2 + (i % (ROWS - 2))))
const write = (seconds: number) => load({ port, requests: writes, connections: 60, seconds })
await write(3)
const free = await write(LOCK_SECONDS)
console.log(`  no lock   ${told(free)}`)
for (const waiting of [1, 20]) {
  await other.query('begin; update public.rows set n = n where id = 1')
  const [locked, waited] = await Promise.all([
    write(LOCK_SECONDS),
    load({ port, requests: [patch(1)], connections: waiting, seconds: LOCK_SECONDS }),
    new Promise((resolve) => setTimeout(resolve, LOCK_SECONDS * 1000)).then(() => other.query('commit')),
  ])
  const ratio = locked.p999 / free.p999
  console.log(
    `  ${String(waiting).padStart(2)} wait   ${told(locked)}: p99.9 ${ratio.toFixed(2)} × (bar 3) ${verdict(ratio <= 3)}`,
  )
  console.log(`            for the locked row: ${told(waited)}`)
}

console.log(`\n500 clients read by id; 40 strangers ask for lists of 16 s, 60 for functions of 5 s`)
const reads = many(1000, read)
const everybody = (seconds: number) => load({ port, requests: reads, connections: 500, seconds })
await everybody(3)
console.log(`  alone     ${told(await everybody(SLOW_SECONDS / 2))}`)
const shapes = many(400, (i) => get(`/api/collections/heavy?filter=${encodeURIComponent(shape(i))}`))
const sleep = { method: 'POST', path: '/api/rpc/slow', body: '{"seconds":5}' }
for (const [name, lists] of [
  ['one list', [get('/api/collections/heavy')]],
  ['400 lists', shapes],
] as const) {
  const [beside, slow] = await Promise.all([
    everybody(SLOW_SECONDS),
    load({ port, requests: lists, connections: 40, seconds: SLOW_SECONDS - 1 }),
    load({ port, requests: [sleep], connections: 60, seconds: SLOW_SECONDS - 1 }),
  ])
  const isOk = Object.keys(beside.statuses).join() === '200' && beside.errors === 0
  console.log(`  ${name.padEnd(9)} ${told(beside)} ${verdict(isOk)}`)
  console.log(`            the slow ones: ${JSON.stringify(slow.statuses)}`)
}
console.log(`  after it  ${told(await everybody(2))}`)

await other.end()
await server.stop()
await cluster.stop()

/** Filters of different statements, true of every row. */
function shape(i: number): string {
  const tests = ["label~'row%'", 'id>0', 'id<1000', "label!='x'", 'id!=0', "label>'a'", "label<'z'", 'id>=1', 'id<=500']
  return tests.filter((_, bit) => (i + 1) & (1 << bit)).join(' AND ')
}
