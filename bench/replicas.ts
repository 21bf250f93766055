/**
 * npm run bench replicas [-- --quick]
 * Reads per second with one replica beside those without: two servers on one primary, in turns. Primary and replica have a core each
 * (`taskset`), as two machines would; the servers and the load take what is left, so the lists are of the kind that PostgreSQL is busy with.
 */
import { execFileSync } from 'node:child_process'
import { end } from '../test/kit/at-end.ts'
import { freePort } from '../test/kit/free-port.ts'
import { caughtUp, type Node, startReplicated } from '../test/kit/replicated.ts'
import { seed } from './kit/database.ts'
import { build, load, processorMs, type Stage, startOn } from './kit/processes.ts'
import { median } from './kit/report.ts'

const BAR = 1.5
const isQuick = process.argv.includes('--quick')
const [ROUNDS, SECONDS] = isQuick ? [3, 3] : [7, 5]

const settings = { max_connections: '200', shared_buffers: '256MB', synchronous_commit: 'off' }
const [primary, standby] = (await startReplicated(2, { settings })) as [Node, Node]
console.log('seeding …')
const { token } = await seed(primary.url)
await primary.sql('vacuum analyze')
await caughtUp(primary, standby)

/** The processes of a PostgreSQL, and those they start from now on, on this core. */
async function pin(node: Node, core: number): Promise<number> {
  const [{ pid: postmaster }] = await node.sql(`select split_part(pg_read_file('postmaster.pid'), E'\\n', 1) as pid`)
  const children = execFileSync('ps', ['-o', 'pid=', '--ppid', postmaster], { encoding: 'utf8' }).split('\n')
  for (const id of [postmaster, ...children.map((line) => line.trim()).filter(Boolean)]) {
    try {
      execFileSync('taskset', ['-cp', String(core), id], { stdio: 'ignore' })
    } catch {
      // a child that has ended meanwhile
    }
  }
  return Number(postmaster)
}
const postmasters = [await pin(primary, 0), await pin(standby, 1)]

build()
const alone = await startOn(await freePort(), primary.url)
const helped = await startOn(await freePort(), primary.url, { SVC_DATABASE_REPLICA_URLS: standby.url })

/** No index has these words, so each reads the whole table. */
const requests = Array.from({ length: 500 }, (_, i) => {
  const filter = encodeURIComponent(`title~'note ${i}7' && body!~'x${i}'`)
  return { method: 'GET', path: `/api/collections/posts?filter=${filter}&perPage=5&skipTotal=true&sort=body`, token }
})
/** Reads per second, and how busy the primary and the replica were. */
async function round(server: Stage): Promise<{ rps: number; busy: number[] }> {
  const spent = (): number[] => postmasters.map((pid) => processorMs(pid, true))
  const before = spent()
  const { rps, errors, statuses } = await load({ port: server.port, requests, connections: 32, seconds: SECONDS })
  if (errors > 0 || Object.keys(statuses).join() !== '200') throw new Error(`not answered: ${JSON.stringify(statuses)}`)
  return { rps, busy: spent().map((ms, i) => (ms - (before[i] ?? 0)) / (SECONDS * 1000)) }
}

for (const server of [alone, helped]) await round(server)
type Rounds = { rps: number; busy: number[] }[]
const [without, within]: [Rounds, Rounds] = [[], []]
for (let i = 0; i < ROUNDS; i++) {
  without.push(await round(alone))
  within.push(await round(helped))
}
const ratio = median(within.map(({ rps }, i) => rps / (without[i]?.rps ?? Number.NaN)))
const told = (rounds: Rounds): string => {
  const busy = [0, 1].map((i) => median(rounds.map((round) => round.busy[i] ?? 0)).toFixed(2))
  return `${median(rounds.map(({ rps }) => rps)).toFixed(0)} reads/s, primary ${busy[0]} of its core, replica ${busy[1]}`
}
console.log(`without: ${told(without)}`)
console.log(`with one replica: ${told(within)}`)
console.log(`ratio ${ratio.toFixed(2)}, bar ${BAR}: ${ratio >= BAR ? 'ok' : 'BELOW'}`)
await Promise.all([alone.stop(), helped.stop()])
await end()
process.exit(0)
