/**
 * npm run bench metering [-- --quick]
 * What counting usage and auditing data add to a read by id: two servers on two databases of one PostgreSQL, one with both
 * switched on and one with both off, in turns.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startEmbedded } from '../src/db/setup/embedded/embedded.ts'
import { openConnection } from '../src/db/wire/connect.ts'
import { seed } from './database.ts'
import { load, type Stage, startBuilt, userMs } from './processes.ts'
import { median } from './report.ts'

const BAR = 1.03
const isQuick = process.argv.includes('--quick')
const [ROUNDS, SECONDS] = isQuick ? [5, 2] : [15, 3]

const dataDir = mkdtempSync(join(tmpdir(), 'svc-metering-pg-'))
const cluster = await startEmbedded({ dataDir, log: () => {} })
const { token } = await seed(cluster.url)
const other = new URL(cluster.url)
other.pathname = '/unmetered'
const client = await openConnection({ url: cluster.url })
await client.query(`create database unmetered template "${new URL(cluster.url).pathname.slice(1) || 'postgres'}"`)
await client.end()

const sides = [
  await startBuilt(cluster.url, { SVC_USAGE_ENABLED: 'true', SVC_AUDIT_ALL_TABLES: 'true' }),
  await startBuilt(other.toString(), { SVC_USAGE_ENABLED: 'false', SVC_AUDIT_ALL_TABLES: 'false' }),
] as const
const requests = Array.from({ length: 500 }, (_, i) => ({
  method: 'GET',
  path: `/api/collections/posts/${i + 1}`,
  token,
}))
async function round(side: Stage): Promise<{ p50: number; us: number }> {
  const before = userMs(side.pid)
  const { p50, count, errors, statuses } = await load({ port: side.port, requests, connections: 8, seconds: SECONDS })
  if (errors > 0 || Object.keys(statuses).join() !== '200') throw new Error(`not answered: ${JSON.stringify(statuses)}`)
  return { p50, us: ((userMs(side.pid) - before) * 1000) / count }
}

for (const side of sides) await round(side)
const [metered, bare]: [Awaited<ReturnType<typeof round>>[], Awaited<ReturnType<typeof round>>[]] = [[], []]
for (let i = 0; i < ROUNDS; i++) {
  const order = i % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)
  for (const side of order) (side === 0 ? metered : bare).push(await round(sides[side]))
}
const ratioOf = (figure: 'p50' | 'us'): number =>
  median(metered.map((one, i) => one[figure] / (bare[i]?.[figure] ?? Number.NaN)))
const of = (all: typeof metered, figure: 'p50' | 'us'): number => median(all.map((one) => one[figure]))
const ratio = ratioOf('p50')
console.log(
  `read by id, p50: ${of(metered, 'p50').toFixed(3)} ms metered and audited, ${of(bare, 'p50').toFixed(3)} ms without`,
)
console.log(`ratio ${ratio.toFixed(3)}, bar ${BAR}: ${ratio <= BAR ? 'ok' : 'above'}`)
console.log(
  `node: ${of(metered, 'us').toFixed(0)} µs per request, ${of(bare, 'us').toFixed(0)} µs without; ratio ${ratioOf('us').toFixed(3)}`,
)
for (const side of sides) await side.stop()
await cluster.stop()
rmSync(dataDir, { recursive: true, force: true })
