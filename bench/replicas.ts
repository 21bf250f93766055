/**
 * npm run bench replicas [-- --quick]
 * Reads per second with one replica beside those without: two servers on one primary, in turns. Primary and replica have a core each
 * (`taskset`), as two machines would; the servers and the load take what is left, so the lists are of the kind that PostgreSQL is busy with.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { end } from '../test/kit/at-end.ts'
import { freePort } from '../test/kit/free-port.ts'
import { caughtUp, type Node, startReplicated } from '../test/kit/replicated.ts'
import { seed } from './kit/database.ts'
import { build, load, type Stage, startOn } from './kit/processes.ts'
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
async function pin(node: Node, core: number): Promise<void> {
  const [{ pid }] = await node.sql('select pg_backend_pid() as pid')
  const parentOf = (id: string): string =>
    readFileSync(`/proc/${id}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')[1] ?? ''
  const postmaster = parentOf(pid)
  const children = execFileSync('ps', ['-o', 'pid=', '--ppid', postmaster], { encoding: 'utf8' }).split('\n')
  for (const id of [postmaster, ...children.map((line) => line.trim()).filter(Boolean)]) {
    try {
      execFileSync('taskset', ['-cp', String(core), id], { stdio: 'ignore' })
    } catch {
      // a child that has ended meanwhile
    }
  }
}
await pin(primary, 0)
await pin(standby, 1)

build()
const alone = await startOn(await freePort(), primary.url)
const helped = await startOn(await freePort(), primary.url, { SVC_DATABASE_REPLICA_URLS: standby.url })

/** No index has these words, so each reads the whole table. */
const requests = Array.from({ length: 500 }, (_, i) => {
  const filter = encodeURIComponent(`title~'note ${i}7' && body!~'x${i}'`)
  return { method: 'GET', path: `/api/collections/posts?filter=${filter}&perPage=5&skipTotal=true&sort=body`, token }
})
async function round(server: Stage): Promise<number> {
  const { rps, errors, statuses } = await load({ port: server.port, requests, connections: 32, seconds: SECONDS })
  if (errors > 0 || Object.keys(statuses).join() !== '200') throw new Error(`not answered: ${JSON.stringify(statuses)}`)
  return rps
}

for (const server of [alone, helped]) await round(server)
const [without, within]: [number[], number[]] = [[], []]
for (let i = 0; i < ROUNDS; i++) {
  without.push(await round(alone))
  within.push(await round(helped))
}
const ratio = median(within.map((rps, i) => rps / (without[i] ?? Number.NaN)))
const [slow, fast] = [median(without), median(within)]
console.log(`reads/s: ${slow.toFixed(0)} without, ${fast.toFixed(0)} with one replica`)
console.log(`ratio ${ratio.toFixed(2)}, bar ${BAR}: ${ratio >= BAR ? 'ok' : 'BELOW'}`)
await Promise.all([alone.stop(), helped.stop()])
await end()
process.exit(0)
