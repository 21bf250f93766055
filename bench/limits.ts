/**
 * npm run bench limits [-- --large]
 * What must stay flat or bounded: latency over the size of a table (ten million rows with --large), memory over the
 * size of a page, reads during a storm of logins, the cost of a token.
 */
import { openConnection } from '../src/db/protocol/driver.ts'
import { seed } from './kit/database.ts'
import { startPostgres } from './kit/postgres.ts'
import { load, startBuilt } from './kit/processes.ts'
import type { Asked } from './kit/raw.ts'
import { median } from './kit/report.ts'

const ROUNDS = 5
const large = process.argv.includes('--large')
const cluster = await startPostgres({ settings: { shared_buffers: '512MB', max_wal_size: '8GB' } })
const { token } = await seed(cluster.url)
const client = await openConnection({ url: cluster.url })
const sizes = large ? [10_000, 1_000_000, 10_000_000] : [10_000, 1_000_000]
for (const size of sizes) {
  console.log(`seeding ${size} rows …`)
  await client.query(`
    create table public.rows_${size} (id bigint primary key, label text not null);
    insert into public.rows_${size} select i, 'row ' || i from generate_series(1, ${size}) i`)
  await client.query(`vacuum analyze public.rows_${size}`)
}
await client.query(`
  create table public.wide (id int primary key, body text not null);
  insert into public.wide select i, (select string_agg(md5(i::text || j), '') from generate_series(1, 320) j)
  from generate_series(1, 500) i`)
await client.query('checkpoint')
await client.end()
const server = await startBuilt(cluster.url, {
  SVC_RATE_LIMIT_LOGIN: 'off',
  SVC_AUTH_LOGIN_BACKOFF_FAILURES: '1000000',
})

const at = (requests: Asked[], connections: number, seconds: number) =>
  load({ port: server.port, requests, connections, seconds })

// Spread over the whole table, so that the pages are not always the same few.
const readsOf = (size: number, bearer = token): Asked[] =>
  Array.from({ length: 2000 }, (_, i) => ({
    method: 'GET',
    path: `/api/collections/rows_${size}/${1 + ((i * 7919 * 104729) % size)}`,
    ...(bearer && { token: bearer }),
  }))

console.log('\nread by id over the size of the table (8 connections)')
const p50s: number[][] = sizes.map(() => [])
for (const size of sizes) await at(readsOf(size), 8, 2)
for (let round = 0; round < ROUNDS; round++) {
  for (const [i, size] of sizes.entries()) p50s[i]?.push((await at(readsOf(size), 8, 2)).p50)
}
const smallest = median(p50s[0] ?? [])
for (const [i, size] of sizes.entries()) {
  const p50 = median(p50s[i] ?? [])
  console.log(
    `  ${String(size).padStart(9)} rows  p50 ${p50.toFixed(2)} ms  ${(p50 / smallest).toFixed(2)} × the smallest (bar 1.30)`,
  )
}

console.log('\na page of 500 rows of 10 kB, the first that a server answers')
const fresh = await startBuilt(cluster.url)
const fetchBytes = async (path: string): Promise<number> => {
  const answer = await fetch(`http://127.0.0.1:${fresh.port}${path}`, { headers: { authorization: `Bearer ${token}` } })
  return (await answer.arrayBuffer()).byteLength
}
for (let i = 1; i <= 200; i++) await fetchBytes(`/api/collections/rows_10000/${i}`)
const before = fresh.residentBytes()
const size = await fetchBytes('/api/collections/wide?perPage=500&skipTotal=true')
const grown = (fresh.peakBytes() ?? fresh.residentBytes()) - before
await fresh.stop()
console.log(
  `  response ${(size / 2 ** 20).toFixed(1)} MB, resident memory at most +${(grown / 2 ** 20).toFixed(1)} MB, ${(grown / size).toFixed(2)} × the response (bar 4)`,
)

console.log('\nthe cost of a user token on a read (32 connections)')
const ratios: number[] = []
for (let round = 0; round < ROUNDS; round++) {
  const without = await at(readsOf(10_000, ''), 32, 2)
  const withToken = await at(readsOf(10_000), 32, 2)
  ratios.push(withToken.rps / without.rps)
}
console.log(`  with / without: ${median(ratios).toFixed(3)} (bar 0.95)`)

console.log('\nreads during a storm of logins (200 at a time)')
const idle = await at(readsOf(10_000), 8, 4)
const login = {
  method: 'POST',
  path: '/api/auth/login',
  body: JSON.stringify({ email: 'bench@example.com', password: 'wrong password' }),
}
const [storm, reads] = await Promise.all([
  at([login], 200, 6),
  new Promise((resolve) => setTimeout(resolve, 1000)).then(() => at(readsOf(10_000), 8, 4)),
])
console.log(
  `  read p99 idle ${idle.p99.toFixed(1)} ms, in the storm ${reads.p99.toFixed(1)} ms: ${(reads.p99 / idle.p99).toFixed(2)} × (bar 3)`,
)
console.log(`  logins answered: ${JSON.stringify(storm.statuses)}`)

await server.stop()
await cluster.stop()
