import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { startServer, storagePath, type TestServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

const full = { code: 507, error: 'insufficient_storage', message: 'insufficient storage' }
const blobs = () =>
  readdirSync(storagePath, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).length
const ownerless = async (api: TestServer) => Number((await api.sql('select bytes from svc.ownerless_bytes'))[0].bytes)

test('uploads leave the reserve of the disk to the database, the operator’s too, and the status warns of it', async () => {
  const api = await startServer({ config: { 'storage.disk_reserve': 10 ** 15 } })
  for (const as of [undefined, 'admin']) {
    const { body } = await upload(api, '/api/storage/open', { ...(as && { as }), name: 'x.txt' })
    assert.deepEqual(body, full)
  }
  assert.equal(blobs(), 0)
  const { warnings } = (await api.call('GET /api/admin/status', { as: 'admin' })).body
  assert.ok(
    warnings.some((line: string) => /GB are free for .*, less than 931322\.6 GB$/.test(line)),
    warnings.join(),
  )
  const site = (await api.call('POST /api/admin/sites', { as: 'admin', json: { name: 's', slug: 's' } })).body
  const deploy = (await api.call(`POST /api/admin/sites/${site.id}/deploys`, { as: 'admin' })).body
  const at = `/api/admin/sites/${site.id}/deploys/${deploy.id}/files`
  assert.deepEqual((await upload(api, at, { as: 'admin', name: 'index.html' })).body, full)
})

test('a disk with room takes files, with the reserve that is the default', async () => {
  const api = await startServer({ config: { 'storage.disk_reserve': 1 } })
  assert.equal((await upload(api, '/api/storage/open', { name: 'x.txt', content: 'x'.repeat(100_000) })).status, 201)
})

test('what no account owns has a quota; what accounts and the operator own has not', async () => {
  const api = await startServer({ config: { 'storage.ownerless_quota': '20KB' } })
  const ada = await api.signUp('ada@example.test')
  const send = (name: string, bytes: number, as?: string) =>
    upload(api, '/api/storage/open', { ...(as !== undefined && { as }), name, content: 'x'.repeat(bytes) })
  assert.equal((await send('a', 10_000)).status, 201)
  const before = blobs()
  assert.deepEqual((await send('b', 11_000)).body, full)
  assert.deepEqual((await send('b', 100_000)).body, full)
  assert.equal(blobs(), before, 'what was refused is not kept')
  assert.equal((await send('a', 19_000)).status, 201, 'a replacement counts for the difference')
  assert.deepEqual((await send('tiny', 1)).body, full, 'a small file takes a block')
  assert.equal((await send('mine', 100_000, ada.token)).status, 201)
  assert.equal((await send('ours', 100_000, 'admin')).status, 201)
  // A user who replaces what has no owner leaves it without one.
  assert.deepEqual((await send('a', 21_000, ada.token)).body, full)
  assert.equal(await ownerless(api), 19_000)
  await api.call('DELETE /api/storage/open/a')
  assert.equal(await ownerless(api), 0)
  assert.equal((await send('b', 11_000)).status, 201)
  await send('b', 11_000, 'admin')
  assert.equal(await ownerless(api), 0, 'what the operator replaces is the operator’s')
})

test('a full store of the S3 kind is 507 too', async () => {
  for (const [status, code] of [
    [507, 'XMinioStorageFull'],
    [403, 'QuotaExceeded'],
  ] as const) {
    const store = createServer((request, response) => {
      request.resume().on('end', () => {
        response.writeHead(request.method === 'DELETE' ? 204 : status, { 'content-type': 'application/xml' })
        response.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>full</Message></Error>`)
      })
    })
    await new Promise<void>((resolve) => store.listen(0, '127.0.0.1', resolve))
    after(() => store.close())
    const api = await startServer({
      config: {
        'storage.backend': 's3',
        'storage.s3_endpoint': `http://127.0.0.1:${(store.address() as AddressInfo).port}`,
        'storage.s3_bucket': 'b',
        'storage.s3_access_key': 'k',
        'storage.s3_secret_key': 's',
      },
    })
    assert.deepEqual((await upload(api, '/api/storage/open', { name: 'x.txt' })).body, full, code)
  }
})
