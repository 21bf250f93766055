/**
 * npm run bench metering [-- --quick]
 * What counting usage and auditing data add to a read by id: servers on databases of their own in one PostgreSQL, one with
 * both switched on and two with both off, in turns. The second of those is the control: what it seems to add is noise.
 */
import { openConnection } from '../src/db/protocol/driver.ts'
import { seed } from './kit/database.ts'
import { startPostgres } from './kit/postgres.ts'
import { load, processorMs, type Stage, startBuilt } from './kit/processes.ts'
import { median } from './kit/report.ts'

const BAR = 1.03
const isQuick = process.argv.includes('--quick')
const [ROUNDS, SECONDS] = isQuick ? [6, 2] : [15, 3]

const cluster = await startPostgres()
const { token } = await seed(cluster.url)
const client = await openConnection({ url: cluster.url })
const copyOf = async (name: string): Promise<string> => {
  await client.query(`create database ${name} template "${new URL(cluster.url).pathname.slice(1) || 'postgres'}"`)
  const url = new URL(cluster.url)
  url.pathname = `/${name}`
  return url.toString()
}
const [bareUrl, controlUrl] = [await copyOf('bare'), await copyOf('control')]
await client.end()

const OFF = { SVC_USAGE_ENABLED: 'false', SVC_AUDIT_ALL_TABLES: 'false' }
const sides = {
  metered: await startBuilt(cluster.url, { SVC_USAGE_ENABLED: 'true', SVC_AUDIT_ALL_TABLES: 'true' }),
  bare: await startBuilt(bareUrl, OFF),
  control: await startBuilt(controlUrl, OFF),
}
type Side = keyof typeof sides
type Figures = { p50: number; node: number; postgres: number }

const requests = Array.from({ length: 500 }, (_, i) => ({
  method: 'GET',
  path: `/api/collections/posts/${i + 1}`,
  token,
}))
/** Latency in ms, and processor time of both in µs per request. */
async function round(side: Stage): Promise<Figures> {
  const spent = () => [processorMs(side.pid), processorMs(cluster.pid, true)] as const
  const before = spent()
  const { p50, count, errors, statuses } = await load({ port: side.port, requests, connections: 8, seconds: SECONDS })
  if (errors > 0 || Object.keys(statuses).join() !== '200') throw new Error(`not answered: ${JSON.stringify(statuses)}`)
  const [node, postgres] = spent().map((ms, i) => ((ms - (before[i] ?? 0)) * 1000) / count)
  return { p50, node: node ?? Number.NaN, postgres: postgres ?? Number.NaN }
}

const all: Record<Side, Figures[]> = { metered: [], bare: [], control: [] }
const turns = Object.keys(sides) as Side[]
for (const name of turns) await round(sides[name])
for (let i = 0; i < ROUNDS; i++) {
  // Each is first, second and last as often as the others.
  for (let k = 0; k < turns.length; k++) {
    const name = turns[(i + k) % turns.length] as Side
    all[name].push(await round(sides[name]))
  }
}

const ratioOf = (name: Side, figure: keyof Figures): number =>
  median(all[name].map((one, i) => one[figure] / (all.bare[i]?.[figure] ?? Number.NaN)))
const of = (name: Side, figure: keyof Figures): number => median(all[name].map((one) => one[figure]))
const verdict = (ratio: number, noise: number): string => {
  if (Math.abs(noise - 1) > BAR - 1) return 'too noisy to tell'
  return ratio <= BAR ? 'ok' : 'above'
}
const tell = (what: string, figure: keyof Figures, digits: number, unit: string): void => {
  const [ratio, noise] = [ratioOf('metered', figure), ratioOf('control', figure)]
  console.log(
    `${what}: ${of('metered', figure).toFixed(digits)} ${unit} metered and audited, ${of('bare', figure).toFixed(digits)} ${unit} ` +
      `without; ratio ${ratio.toFixed(3)}, the control's ${noise.toFixed(3)}, bar ${BAR}: ${verdict(ratio, noise)}`,
  )
}
tell('read by id, p50', 'p50', 3, 'ms')
tell('node per request', 'node', 0, 'µs')
tell('PostgreSQL per request', 'postgres', 0, 'µs')
for (const name of turns) await sides[name].stop()
await cluster.stop()
