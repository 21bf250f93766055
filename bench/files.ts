/**
 * npm run bench files
 * A download through the server against `createReadStream().pipe(response)` and nothing else, in turns.
 */
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startEmbedded } from '../src/db/setup/embedded/embedded.ts'
import { startBareScript, startBuilt } from './processes.ts'
import { median } from './report.ts'

const MEGABYTES = 512
const ROUNDS = 7

const scratch = mkdtempSync(join(tmpdir(), 'svc-bench-files-'))
const file = join(scratch, 'large.bin')
const descriptor = openSync(file, 'w')
for (let i = 0; i < MEGABYTES; i++) writeSync(descriptor, randomBytes(1024 * 1024))
closeSync(descriptor)

const cluster = await startEmbedded({ dataDir: join(scratch, 'pg'), log: () => {} })
const env = { SVC_STORAGE_LOCAL_PATH: join(scratch, 'storage'), SVC_STORAGE_MAX_FILE_SIZE: '1GB' }
const server = await startBuilt(cluster.url, env)
const bare = await startBareScript('bare-file.ts', { file })

const curl = (...args: string[]): string => {
  const { stdout, status } = spawnSync('curl', ['-sS', '--fail', ...args], { encoding: 'utf8' })
  if (status !== 0) throw new Error('curl failed')
  return stdout
}
const storage = `http://127.0.0.1:${server.port}/api/storage/bench`
const upload = curl('-F', `file=@${file}`, '-o', '/dev/null', '-w', '%{speed_upload}', storage)
console.log(`upload, durable: ${Math.round(Number(upload) / 1e6)} MB/s`)

/** Megabytes per second. */
const download = (url: string): number => Number(curl('-o', '/dev/null', '-w', '%{speed_download}', url)) / 1e6
const sides = { bare: `http://127.0.0.1:${bare.port}/`, server: `${storage}/large.bin` }
const pids = { bare: bare.pid, server: server.pid }

/** User and system time; unlike the clock it does not depend on who else is at work on the machine. */
const processorMs = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

const speeds: Record<keyof typeof sides, number[]> = { bare: [], server: [] }
const costs: Record<keyof typeof sides, number[]> = { bare: [], server: [] }
for (const url of Object.values(sides)) download(url)
for (let round = 0; round < ROUNDS; round++) {
  for (const side of ['bare', 'server'] as const) {
    const before = processorMs(pids[side])
    speeds[side].push(download(sides[side]))
    costs[side].push(processorMs(pids[side]) - before)
  }
}
const [alone, through] = [median(speeds.bare), median(speeds.server)]
const [costAlone, costThrough] = [median(costs.bare), median(costs.server)]
const title = `download of ${MEGABYTES} MB`
console.log(`${title}, createReadStream().pipe(): ${Math.round(alone)} MB/s, ${costAlone} ms of processor time`)
console.log(`${title}, storage: ${Math.round(through)} MB/s, ${costThrough} ms of processor time`)
console.log(
  `${(through / alone).toFixed(2)} of the speed (bar 0.8), ${(costThrough / costAlone).toFixed(2)} of the cost`,
)

await server.stop()
await bare.stop()
await cluster.stop()
rmSync(scratch, { recursive: true, force: true })
