/**
 * npm run bench files
 * Downloads through the server against `createReadStream().pipe(response)` of the very same files, in turns: one large
 * file, and many of one megabyte. And what a large file costs in memory on its way in and out. Images in sizes that are new,
 * against `sharp` alone on the same picture; and one that is kept, against the download of a file of its size.
 */
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import sharp from 'sharp'
import { startPostgres } from './kit/postgres.ts'
import { type Stage, startBareScript, startBuilt } from './kit/processes.ts'
import { median } from './kit/report.ts'
import { hasWrk, wrk } from './kit/wrk.ts'

const MEGABYTE = 1024 * 1024
const LARGE = 1024 * MEGABYTE
const SMALL_FILES = 64
const ROUNDS = 7
const SECONDS = 2
const CONNECTIONS = 8

const cluster = await startPostgres()
const storagePath = join(cluster.folder, 'storage')
const env = { SVC_STORAGE_LOCAL_PATH: storagePath, SVC_STORAGE_MAX_FILE_SIZE: '2GB' }
const server = await startBuilt(cluster.url, env)
const bucket = `http://127.0.0.1:${server.port}/api/storage/bench`

const curl = (...args: string[]): string => {
  const { stdout, status } = spawnSync('curl', ['-sS', '--fail', ...args], { encoding: 'utf8' })
  if (status !== 0) throw new Error('curl failed')
  return stdout
}

/** Sends a file of random bytes; megabytes per second until it is durable. */
function upload(name: string, bytes: number): number {
  const file = join(cluster.folder, 'source')
  const descriptor = openSync(file, 'w')
  for (let i = 0; i < bytes; i += MEGABYTE) writeSync(descriptor, randomBytes(MEGABYTE))
  closeSync(descriptor)
  const speed = curl('-F', `file=@${file};filename=${name}`, '-o', '/dev/null', '-w', '%{speed_upload}', bucket)
  rmSync(file)
  return Number(speed) / 1e6
}

const download = (url: string): number => Number(curl('-o', '/dev/null', '-w', '%{speed_download}', url)) / 1e6

/** How much more memory than before a process had at most while it worked. */
function growth<T>({ pid, residentBytes, peakBytes }: Stage, work: () => T): { grownMb: number; result: T } {
  const before = residentBytes()
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
  const result = work()
  return { grownMb: ((peakBytes() ?? Number.NaN) - before) / MEGABYTE, result }
}

/** User and system time; unlike the clock it does not depend on who else is at work on the machine. */
const processorMs = ({ pid }: Stage): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

// Code and buffers that stay are brought in by the first file.
upload('warm.bin', 64 * MEGABYTE)
download(`${bucket}/warm.bin`)
const sent = growth(server, () => upload('large.bin', LARGE))
const got = growth(server, () => download(`${bucket}/large.bin`))
console.log(`upload of 1 GB, durable: ${Math.round(sent.result)} MB/s`)
for (const [way, { grownMb }] of [
  ['in', sent],
  ['out', got],
] as const) {
  console.log(
    `memory while 1 GB goes ${way}: ${grownMb.toFixed(0)} MB more (bar 64)${grownMb <= 64 ? ' ok' : ' ABOVE'}`,
  )
}
for (let i = 0; i < SMALL_FILES; i++) upload(`small${i}.bin`, MEGABYTE)

const blobs = join(storagePath, 'blobs')
const files = readdirSync(blobs).flatMap((shard) => readdirSync(join(blobs, shard)).map((id) => join(blobs, shard, id)))
const ofSize = (bytes: number) => files.filter((file) => statSync(file).size === bytes)
const bare = await startBareScript('kit/bare-file.ts', { files: [...ofSize(LARGE), ...ofSize(MEGABYTE)] })

type Side = 'bare' | 'server'
const sides = { bare, server }

/** Megabytes per second, and milliseconds of processor time per gigabyte. */
type Pass = { speed: number; cost: number }

const large = (side: Side): Pass => {
  const before = processorMs(sides[side])
  const speed = download(side === 'bare' ? `http://127.0.0.1:${bare.port}/0` : `${bucket}/large.bin`)
  return { speed, cost: processorMs(sides[side]) - before }
}

const many = async (side: Side): Promise<Pass> => {
  const paths = Array.from({ length: SMALL_FILES }, (_, i) =>
    side === 'bare' ? `/${i + 1}` : `/api/storage/bench/small${i}.bin`,
  )
  const before = processorMs(sides[side])
  const { port } = sides[side]
  const requests = paths.map((path) => ({ method: 'GET', path }))
  const { rps, count, errors, statuses } = await wrk({ port, requests, connections: CONNECTIONS, seconds: SECONDS })
  if (errors > 0 || Object.keys(statuses).length > 1) throw new Error(`${side}: not every download succeeded`)
  return { speed: (rps * MEGABYTE) / 1e6, cost: ((processorMs(sides[side]) - before) * 1024) / count }
}

/** Each round has both sides next to each other, and begins with the other one; what disturbs one round is outvoted. */
async function compare(title: string, pass: (side: Side) => Pass | Promise<Pass>): Promise<void> {
  const passes: Record<Side, Pass[]> = { bare: [], server: [] }
  for (const side of ['bare', 'server'] as const) await pass(side)
  for (let round = 0; round < ROUNDS; round++) {
    const order: Side[] = round % 2 === 0 ? ['bare', 'server'] : ['server', 'bare']
    for (const side of order) passes[side].push(await pass(side))
  }
  const ratios = passes.server.map(({ speed }, i) => speed / (passes.bare[i]?.speed ?? Number.NaN))
  for (const side of ['bare', 'server'] as const) {
    const speed = Math.round(median(passes[side].map((one) => one.speed)))
    const cost = Math.round(median(passes[side].map((one) => one.cost)))
    console.log(`${title}, ${side}: ${speed} MB/s, ${cost} ms of processor time per GB`)
  }
  const ratio = median(ratios)
  const all = ratios.map((one) => one.toFixed(2)).join(' ')
  console.log(`${title}: ${ratio.toFixed(2)} of bare (bar 0.80)${ratio >= 0.8 ? ' ok' : ' BELOW'}; rounds: ${all}`)
}

await compare('download of 1 GB', large)
if (hasWrk()) await compare(`downloads of 1 MB, ${CONNECTIONS} at a time`, many)
else console.log('downloads of 1 MB are measured with wrk, which is not installed')

const SIZES_PER_ROUND = 12
const noise = { width: 4_000, height: 3_000, channels: 3, noise: { type: 'gaussian', mean: 128, sigma: 30 } } as const
const photo = await sharp({ create: { ...noise, background: '#000' } })
  .jpeg()
  .toBuffer()
const at = (path: string): string => `http://127.0.0.1:${server.port}${path}`
const signedIn = await fetch(at('/api/admin/auth'), {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ password: 'bench' }),
})
const { token } = (await signedIn.json()) as { token: string }
const headers = { authorization: `Bearer ${token}` }
await fetch(at('/api/admin/storage/buckets'), {
  method: 'POST',
  headers: { ...headers, 'content-type': 'application/json' },
  body: JSON.stringify({ name: 'pictures', access: 'private' }),
})
await fetch(at('/api/storage/pictures/photo.jpg'), { method: 'PUT', headers, body: new Uint8Array(photo) })

/** Images a second, one at a time, each in a width that was never made. */
let nextWidth = 300
const made = async (side: Side): Promise<number> => {
  const begun = performance.now()
  for (let i = 0; i < SIZES_PER_ROUND; i++) {
    const width = nextWidth++
    if (side === 'bare') await sharp(photo).autoOrient().resize({ width }).jpeg({ quality: 80 }).toBuffer()
    else await (await fetch(at(`/api/storage/pictures/photo.jpg?width=${width}`), { headers })).arrayBuffer()
  }
  return (SIZES_PER_ROUND * 1_000) / (performance.now() - begun)
}
const imageRatios: number[] = []
for (let round = 0; round < ROUNDS; round++) {
  const bareSpeed = await made('bare')
  const ours = await made('server')
  imageRatios.push(ours / bareSpeed)
  console.log(`images, round ${round + 1}: sharp alone ${bareSpeed.toFixed(1)}/s, server ${ours.toFixed(1)}/s`)
}
const imageRatio = median(imageRatios)
console.log(`images: ${imageRatio.toFixed(2)} of sharp alone (bar 0.80)${imageRatio >= 0.8 ? ' ok' : ' BELOW'}`)

if (hasWrk()) {
  const kept = '/api/storage/pictures/photo.jpg?width=300'
  const bytes = Buffer.from(await (await fetch(at(kept), { headers })).arrayBuffer())
  await fetch(at('/api/storage/pictures/same.jpg'), { method: 'PUT', headers, body: new Uint8Array(bytes) })
  const rate = async (path: string): Promise<number> => {
    const requests = [{ method: 'GET', path, token }]
    return (await wrk({ port: server.port, requests, connections: CONNECTIONS, seconds: SECONDS })).rps
  }
  const keptRatios: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const plain = await rate('/api/storage/pictures/same.jpg')
    keptRatios.push((await rate(kept)) / plain)
  }
  const keptRatio = median(keptRatios)
  console.log(
    `kept images: ${keptRatio.toFixed(2)} of a plain download (bar 0.90)${keptRatio >= 0.9 ? ' ok' : ' BELOW'}`,
  )
}

await server.stop()
await bare.stop()
await cluster.stop()
