import assert from 'node:assert/strict'
import { readdirSync, readlinkSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { startS3 } from '../../../test/fakes/s3-server.ts'
import { parseRaw, sendRaw } from '../../../test/kit/http.ts'
import { eventually, startServer, storagePath } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

const api = await startServer({ config: { 'server.trusted_proxies': ['127.0.0.1'], 'storage.max_file_size': '64MB' } })
const port = Number(new URL(api.url).port)
const sockets: Socket[] = []
after(() => {
  for (const socket of sockets) socket.destroy()
})

/** Sends these bytes. */
function open(text: string, at = port): { socket: Socket; heard(): string } {
  const socket = connect(at, '127.0.0.1')
  let heard = ''
  sockets.push(socket)
  socket.on('error', () => {})
  socket.setEncoding('latin1').on('data', (chunk) => (heard += chunk))
  socket.write(text)
  return { socket, heard: () => heard }
}

const file = '--B\r\nContent-Disposition: form-data; name="file"; filename="f.txt"\r\n\r\ndata\r\n'
const end = '--B--\r\n'
const head = (length: number, from: string) =>
  `POST /api/storage/drip HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${from}\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=B\r\nContent-Length: ${length}\r\n\r\n`

/** Begins to send a file, and goes on with `bytes` each 200 ms. */
function drip(from: string, bytes: number, at: number) {
  const dripper = open(head(5_000_000, from) + file.slice(0, -2), at)
  const timer = setInterval(() => dripper.socket.destroyed || dripper.socket.write('x'.repeat(bytes)), 200)
  after(() => clearInterval(timer))
  return dripper
}
/** Far below the pace of other bodies, and judged at the end of this file. */
const tooSlow = drip('10.0.0.9', 1, port)

// An S3 store has places for sixteen uploads.
const onS3 = await startServer({ config: { ...(await startS3()).config, 'server.trusted_proxies': ['127.0.0.1'] } })
const s3Port = Number(new URL(onS3.url).port)

test('when dripping uploads hold every place, the slowest gives way to one that sends', async () => {
  const send = async (from: string) =>
    parseRaw(await sendRaw(s3Port, head(file.length + end.length, from), file + end)).status
  const addresses = ['10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4']
  // 10 KB/s: as fast as a body has to be.
  const all = addresses.flatMap((from) => Array.from({ length: 4 }, () => ({ from, ...drip(from, 2_000, s3Port) })))
  await eventually(async () => {
    // One that came later than what is sent here was refused, or another gave way to it.
    for (const [i, { from, socket }] of all.entries())
      if (socket.destroyed) all[i] = { from, ...drip(from, 2_000, s3Port) }
    for (const from of addresses) assert.equal(await send(from), 503)
  })
  for (const from of ['10.0.0.5', '10.0.0.6']) {
    await eventually(async () => assert.equal(await send(from), 201))
  }
  const gone = all.filter(({ heard }) => /^HTTP\/1.1 503 .*server busy/s.test(heard()))
  assert.ok(gone.length > 0 && gone.length < all.length, `${gone.length} gave way`)
  for (const { socket } of all) socket.destroy()
})

/** Descriptors of this process that are open on stored files. */
const openFiles = () =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(`${storagePath}/blobs/`)
    } catch {
      return false
    }
  }).length

test('paused downloads are in a budget of memory and descriptors, and other addresses get their files', async () => {
  const bytes = 16 * 1024 * 1024
  const film = new Uint8Array(bytes)
  assert.equal((await upload(api, '/api/storage/open', { name: 'film.bin', content: film })).status, 201)
  const site = (await api.call('POST /api/admin/sites', { as: 'admin', json: { name: 's', slug: 'films' } })).body
  const deploys = `/api/admin/sites/${site.id}/deploys`
  const { id } = (await api.call(`POST ${deploys}` as 'POST /', { as: 'admin' })).body
  await upload(api, `${deploys}/${id}/files`, { as: 'admin', name: 'film.bin', content: film })
  await api.call(`POST ${deploys}/${id}/promote` as 'POST /', { as: 'admin' })

  /** A download of which nothing is read beyond its first bytes. */
  const paused: Socket[] = []
  const pause = async (_: unknown, i: number): Promise<void> => {
    const [path, host] = i % 2 ? ['/api/storage/open/film.bin', 'x'] : ['/film.bin', 'films.localhost']
    const { socket } = open(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nX-Forwarded-For: 10.1.0.1\r\n\r\n`)
    await new Promise<void>((resolve) => socket.once('data', () => resolve(void socket.pause())))
    paused.push(socket)
  }
  await Promise.all(Array.from({ length: 128 }, pause))
  assert.equal(openFiles(), 128)
  await Promise.all(Array.from({ length: 32 }, pause))
  // Each takes 256 KB of the 32 MB of its address: those that were not read for longest lost their connections.
  await eventually(() => assert.equal(openFiles(), 128))
  const other = await fetch(`${api.url}/api/storage/open/film.bin`, { headers: { 'x-forwarded-for': '10.1.0.2' } })
  assert.equal((await other.arrayBuffer()).byteLength, bytes)
  for (const socket of paused) socket.destroy()
  await eventually(() => assert.equal(openFiles(), 0))
})

test('paused downloads out of an S3 store keep no other from being read or written', async () => {
  await upload(onS3, '/api/storage/open', { name: 'film.bin', content: new Uint8Array(8 * 1024 * 1024) })
  const paused = Array.from({ length: 60 }, async () => {
    const { socket } = open('GET /api/storage/open/film.bin HTTP/1.1\r\nHost: x\r\n\r\n', s3Port)
    await new Promise<void>((resolve) => socket.once('data', () => resolve(void socket.pause())))
  })
  await Promise.all(paused)
  assert.equal((await upload(onS3, '/api/storage/open', { name: 'x.txt', content: 'x' })).status, 201)
  assert.equal((await onS3.call('GET /api/storage/open/x.txt')).text, 'x')
})

test('an upload has to come at some rate, as other bodies', async () => {
  await eventually(() => assert.match(tooSlow.heard(), /^HTTP\/1.1 408 .*request timeout/s))
})
