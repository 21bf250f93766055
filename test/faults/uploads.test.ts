import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { eventually, spawnServer, startServer } from '../kit/kit.ts'
import { hashOf, sendLarge } from '../kit/large-upload.ts'
import { parsed } from '../kit/parsed.ts'
import { upload } from '../kit/upload.ts'
import { isLong } from './rounds.ts'
import { killDuringUploads } from './upload-kills.ts'

/** A gigabyte is promised; what grows by less than 64 MB with 192 does not grow with more. */
const LARGE = isLong ? 1024 : 192
const MEGABYTE = 1024 * 1024

const folders: string[] = []
const folder = (): string => {
  const path = mkdtempSync(join(tmpdir(), 'svc-uploads-'))
  folders.push(path)
  return path
}
after(() => {
  for (const path of folders) rmSync(path, { recursive: true, force: true })
})
const names = (path: string): string[] => {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}
const age = (path: string): void => utimesSync(path, new Date(0), new Date(0))

test('a server killed in the middle of uploads: what is listed is whole, and what was there stays until then', async () => {
  const root = folder()
  const config = { 'storage.local_path': root, 'storage.max_file_size': '100MB' }
  const server = await killDuringUploads(config, { megabytes: 8 })

  // An untouched temporary file is removed after a while; the clock is moved instead of waited for.
  for (const name of names(join(root, 'tmp'))) age(join(root, 'tmp', name))
  await eventually(() => assert.deepEqual(names(join(root, 'tmp')), []))
  await server.stop()
})

test('bytes that no row means are swept, and only those', async () => {
  const root = folder()
  const server = await startServer({ config: { 'storage.local_path': root } })
  await upload(server, '/api/storage/pub', { name: 'kept.txt' })
  const [shard = ''] = names(join(root, 'blobs'))
  for (const name of names(join(root, 'blobs', shard))) age(join(root, 'blobs', shard, name))
  mkdirSync(join(root, 'blobs', '00'), { recursive: true })
  const [old, fresh] = ['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002'] as const
  for (const id of [old, fresh]) writeFileSync(join(root, 'blobs', '00', id), 'orphan')
  age(join(root, 'blobs', '00', old))
  assert.equal(await server.app.cleanups['storage_orphan_sweep']?.(), 1)
  assert.deepEqual(names(join(root, 'blobs', '00')), [fresh])
  assert.equal((await server.call('GET /api/storage/pub/kept.txt')).text, 'hello')
})

test('a full disk is 507: nothing half is kept, everything else goes on, and space makes it work again', async (t) => {
  const root = folder()
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16m', 'tmpfs', root], { stdio: 'pipe' })
  } catch {
    t.skip('this system lets nobody mount a small disk here')
    return
  }
  try {
    const server = await startServer({ config: { 'storage.local_path': root } })
    const pieces = (megabytes: number) => Array.from({ length: megabytes }, () => randomBytes(MEGABYTE))
    const first = await sendLarge(`${server.url}/api/storage/pub`, 'old.bin', { pieces: pieces(6) })
    assert.equal(first.status, 201)
    const full = await sendLarge(`${server.url}/api/storage/pub`, 'old.bin', { pieces: pieces(20) })
    assert.deepEqual(
      [full.status, parsed(full.text)],
      [507, { code: 507, error: 'insufficient_storage', message: 'insufficient storage' }],
    )
    assert.deepEqual(names(join(root, 'tmp')), [])
    assert.equal((await hashOf(`${server.url}/api/storage/pub/old.bin`)).sha256, first.sha256)
    await server.signUp('still@works.test')

    const asAdmin = { as: 'admin' }
    const site = await server.call('POST /api/admin/sites', { ...asAdmin, json: { name: 's', slug: 's' } })
    const deploys = `/api/admin/sites/${site.body.id}/deploys`
    const { body: deploy } = await server.call(`POST ${deploys}` as 'POST /', asAdmin)
    const files = `${server.url}${deploys}/${deploy.id}/files`
    const tooMuch = await sendLarge(files, 'big.bin', { pieces: pieces(20), as: await server.adminToken() })
    assert.equal(tooMuch.status, 507)
    const { body: spoilt } = await server.call(`GET ${deploys}/${deploy.id}` as 'GET /', asAdmin)
    assert.equal(spoilt.status, 'failed')

    assert.equal((await sendLarge(`${server.url}/api/storage/pub`, 'small.bin', { pieces: pieces(2) })).status, 201)
    await server.stop()
  } finally {
    execFileSync('umount', [root])
  }
})

const residentOf = (pid: number, which: 'VmRSS' | 'VmHWM'): number =>
  Number(new RegExp(`${which}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024

test('a large file goes in and out with at most 64 MB of memory', async (t) => {
  if (process.platform !== 'linux') return t.skip('only Linux tells the most memory a process had')
  const config = { 'storage.local_path': folder(), 'storage.max_file_size': '2GB' }
  const server = await spawnServer({ config })
  const pid = server.child.pid ?? 0
  const at = `${server.url}/api/storage/pub`
  const block = randomBytes(MEGABYTE)
  function* pieces(megabytes: number) {
    for (let i = 0; i < megabytes; i++) yield block
  }
  // The first files also bring in code and buffers that stay.
  for (let i = 0; i < 3; i++) await sendLarge(at, 'warm.bin', { pieces: pieces(32) })
  for (let i = 0; i < 3; i++) await hashOf(`${at}/warm.bin`)
  const before = residentOf(pid, 'VmRSS')
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
  const sent = await sendLarge(at, 'large.bin', { pieces: pieces(LARGE) })
  assert.equal(sent.status, 201)
  const grownIn = residentOf(pid, 'VmHWM') - before
  assert.deepEqual(await hashOf(`${at}/large.bin`), { status: 200, sha256: sent.sha256, bytes: LARGE * MEGABYTE })
  const grownOut = residentOf(pid, 'VmHWM') - before
  t.diagnostic(`${Math.round(grownIn / MEGABYTE)} MB in, ${Math.round(grownOut / MEGABYTE)} MB out`)
  assert.ok(grownIn <= 64 * MEGABYTE, `${grownIn} bytes more while it came in`)
  assert.ok(grownOut <= 64 * MEGABYTE, `${grownOut} bytes more while it went out`)
  await server.stop()
})
