import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { closeSync, createReadStream, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Upload } from 'tus-js-client'
import { freePort } from '../../../../test/kit/free-port.ts'
import { spawnServer } from '../../../../test/kit/kit.ts'

const LENGTH = 2 ** 30
const CUT_MS = 200

/** Bytes of which no two blocks are alike. */
function writeContent(path: string): string {
  const hash = createHash('sha256')
  const file = openSync(path, 'w')
  const block = Buffer.alloc(2 ** 20, createHash('sha512').update('block').digest())
  for (let at = 0; at < LENGTH; at += block.length) {
    block.writeUInt32BE(at / block.length, 0)
    hash.update(block)
    writeSync(file, block)
  }
  closeSync(file)
  return hash.digest('hex')
}

test('a gigabyte over a connection that is cut every 200 ms, and two kill -9: the same hash', {
  timeout: 900_000,
}, async () => {
  const port = await freePort()
  const config = { 'storage.max_file_size': '2GB', 'rate_limit.api': 'off' }
  let server = await spawnServer({ port, config })
  const { databaseUrl } = server
  const ada = await server.signUp('ada@example.test')
  const sockets = new Set<Socket>()
  const proxy = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket
        .on('error', () => {})
        .on('close', () => {
          sockets.delete(socket)
          client.destroy()
          upstream.destroy()
        })
    }
    client.pipe(upstream).pipe(client)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const cutting = setInterval(() => {
    for (const socket of sockets) socket.resetAndDestroy()
  }, CUT_MS)
  after(() => {
    clearInterval(cutting)
    proxy.close()
  })
  let kills = 0
  let killing = Promise.resolve()
  const restart = async (): Promise<void> => {
    await server.kill('SIGKILL')
    server = await spawnServer({ on: { databaseUrl }, port, config })
  }
  const endpoint = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/api/storage/tus/open`
  const folder = mkdtempSync(join(tmpdir(), 'svc-giga-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'giga.bin')
  const hash = writeContent(path)
  await new Promise<void>((resolve, reject) => {
    const upload = new Upload(createReadStream(path), {
      endpoint,
      headers: { authorization: `Bearer ${ada.token}` },
      metadata: { filename: 'giga.bin' },
      retryDelays: Array(10_000).fill(50),
      onShouldRetry: () => true,
      onError: reject,
      onSuccess: () => resolve(),
      onProgress: (sent) => {
        if (sent < ((kills + 1) * LENGTH) / 3 || kills === 2) return
        kills++
        killing = killing.then(restart)
      },
    })
    upload.start()
  })
  await killing
  clearInterval(cutting)
  assert.equal(kills, 2)
  const { headers } = await server.call('HEAD /api/storage/open/giga.bin', { as: ada.token })
  assert.equal(headers.get('etag'), `"${hash}"`)
  const downloaded = createHash('sha256')
  const answer = await fetch(`${server.url}/api/storage/open/giga.bin`)
  for await (const piece of answer.body ?? []) downloaded.update(piece)
  assert.equal(`"${downloaded.digest('hex')}"`, headers.get('etag'))
})
