import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { S3Store } from '../../../src/features/storage/blobs/s3-store.ts'
import { startS3 } from '../../fakes/s3-server.ts'
import { eventually, startServer } from '../../kit/kit.ts'
import { hashOf, sendLarge } from '../../kit/large-upload.ts'
import { killDuringUploads } from '../upload-kills.ts'

const MEGABYTE = 1024 * 1024

test('s3: a server killed in the middle of uploads: what is listed is whole, and the rest is swept', async () => {
  const s3 = await startS3()
  // More than one part, so that a kill leaves unfinished uploads.
  const server = await killDuringUploads({ ...s3.config, 'storage.max_file_size': '100MB' }, { megabytes: 17 })
  const store = new S3Store({ ...s3.store, abandonedMs: 60_000 })
  s3.age()
  await store.removeUnfinished()
  assert.equal(await store.removeUnfinished(), 0)

  await server.sql(`insert into svc.jobs (type, max_attempts) values ('storage_orphan_sweep', 1)`)
  await eventually(async () => {
    const jobs = await server.sql(`select state from svc.jobs where type = 'storage_orphan_sweep'`)
    assert.deepEqual(jobs, [{ state: 'completed' }])
  })
  const kept = []
  for await (const { id } of store.list()) kept.push(id)
  const meant = await server.sql('select id from svc.blobs')
  assert.deepEqual(kept.toSorted(), meant.map(({ id }) => id).toSorted())
  await store.stop()
  await server.stop()
})

test('s3: a store that goes away in the middle costs the upload and nothing else', async () => {
  const s3 = await startS3()
  const server = await startServer({ config: s3.config })
  const at = `${server.url}/api/storage/pub`
  const first = await sendLarge(at, 'old.bin', { pieces: [randomBytes(MEGABYTE)] })
  assert.equal(first.status, 201)
  async function* pieces() {
    for (let i = 0; i < 20; i++) {
      if (i === 12) await s3.kill()
      yield randomBytes(MEGABYTE)
    }
  }
  const broken = await sendLarge(at, 'old.bin', { pieces: pieces() })
  assert.ok(broken.status >= 500, `${broken.status} ${broken.text}`)
  assert.ok((await fetch(`${at}/old.bin`)).status >= 500)
  assert.equal((await server.call('GET /api/storage/pub')).body.totalItems, 1)
  await s3.start()
  assert.deepEqual(await hashOf(`${at}/old.bin`), { status: 200, sha256: first.sha256, bytes: MEGABYTE })
  assert.equal((await sendLarge(at, 'old.bin', { pieces: [randomBytes(MEGABYTE)] })).status, 201)
})
