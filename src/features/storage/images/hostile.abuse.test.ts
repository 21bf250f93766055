import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { test } from 'node:test'
import sharp from 'sharp'
import { hostileImages, tryHostile } from '../../../../test/fakes/hostile-images.ts'
import { startServer } from '../../../../test/kit/kit.ts'

const warnings: string[] = []
process.on('warning', ({ message }) => warnings.push(message))
const api = await startServer()
const ada = await api.signUp('ada@example.test')
await api.call('POST /api/admin/storage/buckets', { as: 'admin', json: { name: 'vault', access: 'private' } })

test('hostile images are refused within limits, and good ones are made after them', async () => {
  // One in six; all of them are tried in the long tests.
  const some = (await hostileImages()).filter((_, i) => i < 8 || i % 6 === 0)
  assert.ok((await tryHostile(api.url, ada.token, some)) >= some.length / 3)
  const headers = { authorization: `Bearer ${ada.token}` }
  const good = await sharp({ create: { width: 9, height: 9, channels: 3, background: 'red' } })
    .png()
    .toBuffer()
  await fetch(`${api.url}/api/storage/vault/good.png`, { method: 'PUT', body: new Uint8Array(good), headers })
  assert.equal((await fetch(`${api.url}/api/storage/vault/good.png?width=5`, { headers })).status, 200)
})

test('images leave nothing behind at the process that makes them', async () => {
  const headers = { authorization: `Bearer ${ada.token}` }
  for (let width = 10; width < 24; width++) {
    assert.equal((await fetch(`${api.url}/api/storage/vault/good.png?width=${width}`, { headers })).status, 200)
  }
  // A listener for each would be a warning of Node at the eleventh.
  assert.deepEqual(warnings, [])
})

test('the process that reads images has none of our environment', async () => {
  const children = execFileSync('ps', ['-o', 'pid=,args=', '--ppid', String(process.pid)], { encoding: 'utf8' })
  const workers = children
    .split('\n')
    .filter((line) => line.includes('VipsForeignLoad') || line.includes('--input-type=commonjs'))
  assert.ok(workers.length > 0)
  for (const line of workers) {
    const pid = Number.parseInt(line, 10)
    assert.equal(readFileSync(`/proc/${pid}/environ`, 'utf8'), '')
    const files = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))
    const sockets = files.filter((file) => file.startsWith('socket:'))
    // Those of node's own pipes for standard input and output.
    assert.ok(sockets.length <= 2, sockets.join())
  }
})
