import assert from 'node:assert/strict'
import { readdirSync, readlinkSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { parseRaw, sendRaw } from '../../../test/kit/http.ts'
import { eventually, startServer, storagePath } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

const api = await startServer({ config: { 'server.trusted_proxies': ['127.0.0.1'], 'storage.max_file_size': '64MB' } })
const port = Number(new URL(api.url).port)
const sockets: Socket[] = []
after(() => {
  for (const socket of sockets) socket.destroy()
})

/** Sends these bytes; reads only when `reads`. */
function open(text: string, { reads = true } = {}): { socket: Socket; heard(): string } {
  const socket = connect(port, '127.0.0.1')
  let heard = ''
  sockets.push(socket)
  socket.on('error', () => {})
  if (reads) socket.setEncoding('latin1').on('data', (chunk) => (heard += chunk))
  else socket.pause()
  socket.write(text)
  return { socket, heard: () => heard }
}

const file = '--B\r\nContent-Disposition: form-data; name="file"; filename="f.txt"\r\n\r\ndata\r\n'
const end = '--B--\r\n'
const head = (length: number, from: string) =>
  `POST /api/storage/drip HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${from}\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=B\r\nContent-Length: ${length}\r\n\r\n`

const drippers = [1, 2, 3, 4].flatMap((host) =>
  Array.from({ length: 64 }, () => open(head(500_000, `10.0.0.${host}`) + file.slice(0, -2))),
)
const dripping = setInterval(() => {
  for (const { socket } of drippers) if (!socket.destroyed) socket.write('x')
}, 200)
after(() => clearInterval(dripping))

test('when dripping uploads hold every place, the slowest gives way to one that sends', async () => {
  const send = async (from: string) =>
    parseRaw(await sendRaw(port, head(file.length + end.length, from), file + end)).status
  await eventually(() => assert.equal(readdirSync(`${storagePath}/tmp`).length, 256))
  assert.equal(await send('10.0.0.1'), 503)
  for (const from of ['10.0.0.5', '10.0.0.6']) {
    await eventually(async () => assert.equal(await send(from), 201))
  }
  const gone = drippers.filter(({ heard }) => /^HTTP\/1.1 503 .*server busy/s.test(heard()))
  assert.ok(gone.length >= 1 && gone.length < 16, `${gone.length} gave way`)
})

test('an upload has to come at some rate, as other bodies', async () => {
  await eventually(() => assert.ok(drippers.some(({ heard }) => /^HTTP\/1.1 408 .*request timeout/s.test(heard()))))
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
  const paused = async (_: unknown, i: number): Promise<Socket> => {
    const [path, host] = i % 2 ? ['/api/storage/open/film.bin', 'x'] : ['/film.bin', 'films.localhost']
    const { socket } = open(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nX-Forwarded-For: 10.1.0.1\r\n\r\n`)
    await new Promise<void>((resolve) => socket.once('data', () => resolve(void socket.pause())))
    return socket
  }
  await Promise.all(Array.from({ length: 128 }, paused))
  assert.equal(openFiles(), 128)
  await Promise.all(Array.from({ length: 32 }, paused))
  // Each takes 256 KB of the 32 MB of its address: those that were not read for longest lost their connections.
  await eventually(() => assert.equal(openFiles(), 128))
  const other = await fetch(`${api.url}/api/storage/open/film.bin`, { headers: { 'x-forwarded-for': '10.1.0.2' } })
  assert.equal((await other.arrayBuffer()).byteLength, bytes)
  for (const socket of sockets) socket.destroy()
  await eventually(() => assert.equal(openFiles(), 0))
})
