import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { startS3 } from '../../../../test/fakes/s3-server.ts'
import { startServer } from '../../../../test/kit/kit.ts'

test('parts in a store of the S3 kind become one file, and zip and folders read from it', async () => {
  const api = await startServer({ config: (await startS3()).config })
  const ada = await api.signUp('ada@example.test')
  const content = randomBytes(10 * 2 ** 20)
  const tus = { 'tus-resumable': '1.0.0' }
  const made = await api.call('POST /api/storage/tus/open', {
    as: ada.token,
    headers: { ...tus, 'upload-length': String(content.length), 'upload-metadata': `filename ${btoa('d/big.bin')}` },
  })
  const at = made.headers.get('location') as `/${string}`
  for (const [start, end] of [
    [0, 9_000_000],
    [9_000_000, content.length],
  ] as const) {
    const { status } = await api.call(`PATCH ${at}`, {
      as: ada.token,
      body: content.subarray(start, end),
      headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(start) },
    })
    assert.equal(status, 204)
  }
  const bytes = Buffer.from(await (await fetch(`${api.url}/api/storage/open/d/big.bin`)).arrayBuffer())
  const hash = createHash('sha256').update(content).digest('hex')
  assert.equal(createHash('sha256').update(bytes).digest('hex'), hash)
  const zip = Buffer.from(await (await fetch(`${api.url}/api/storage/open?prefix=d/&format=zip`)).arrayBuffer())
  assert.ok(zip.includes(content.subarray(5_000_000, 5_000_100)))
})
