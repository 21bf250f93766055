import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { test } from 'node:test'
import { startS3 } from '../../../../test/fakes/s3-server.ts'
import { query, runSvc, startEmbeddedServer, testFolder, upload } from '../../../../test/kit/backups.ts'
import { Seals } from '../../../db/backup/stored/seal.ts'
import { openTarget } from '../../../db/backup/target/open-target.ts'

const s3 = await startS3()
const home = testFolder()
const dataDir = join(home, 'data')
const to = `s3://${s3.store.bucket}/nightly`
const settings = { ...s3.config, 'backup.passphrase': 'only for tests', 'backup.to': to, data_dir: dataDir }
const server = await startEmbeddedServer(dataDir, s3.config)
await query(
  server,
  'create table public.notes (id int primary key); insert into public.notes select generate_series(1, 100)',
)
assert.equal(await upload(server, 'a.txt', 'in the bucket'), 201)
const target = openTarget(to, s3.store)

test('an object of several parts comes back as it was, and one that was cut off is not there', async () => {
  const bytes = randomBytes(20 * 2 ** 20)
  const seals = new Seals({ passphrase: 'x' })
  async function* source(isBroken: boolean): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes.length; at += 100_000) yield bytes.subarray(at, at + 100_000)
    if (isBroken) throw new Error('the database went away')
  }
  assert.ok((await target.put('wal/whole', seals.seal('wal/whole', source(false)))) > bytes.length)
  const parts: Buffer[] = []
  const stored = await target.get('wal/whole')
  assert.ok(stored)
  for await (const part of seals.open('wal/whole', stored)) parts.push(part)
  assert.ok(Buffer.concat(parts).equals(bytes))
  await assert.rejects(target.put('wal/broken', seals.seal('wal/broken', source(true))), /the database went away/)
  const names: string[] = []
  for await (const { name } of target.list('wal/')) names.push(name)
  assert.deepEqual(names, ['wal/whole'])
  assert.equal(await target.get('wal/broken'), undefined)
  await target.remove('wal/whole')
})

test('a backup goes to a bucket and comes back; files of S3 storage are listed, and copied with --files', async () => {
  const listed = await runSvc(['backup'], settings)
  assert.equal(listed.code, 0, listed.err)
  assert.match(listed.out, /1 files listed: they stay in S3/)
  const copied = await runSvc(['backup', '--files', '--json'], settings)
  assert.equal(JSON.parse(copied.out).state, 'good')
  const blobs: string[] = []
  for await (const { name } of target.list('files/')) blobs.push(name)
  assert.equal(blobs.length, 1)
  const { items } = JSON.parse((await runSvc(['backup', 'list', '--json'], settings)).out)
  assert.deepEqual(
    items.map(({ state }: { state: string }) => state),
    ['good', 'good'],
  )
})

test('a drill beside the server, on the same bucket, removes none of its files', async () => {
  const copy = join(home, 'copy')
  const { code, err } = await runSvc(['restore', '--from', to, '--data-dir', copy], { ...settings, data_dir: copy })
  assert.equal(code, 0, err)
  const drill = await startEmbeddedServer(copy, {
    ...s3.config,
    'backup.to': to,
    'backup.passphrase': 'only for tests',
  })
  assert.equal((await drill.call('GET /api/storage/files/a.txt')).text, 'in the bucket')
  assert.equal((await drill.call('DELETE /api/storage/files/a.txt', { as: 'admin' })).status, 204)
  await query(drill, `update svc.queue set run_at = now()`)
  assert.equal(await drill.app.cleanups['storage_orphan_sweep']?.(), 0)
  const { status, body } = await drill.call('POST /api/admin/backups', { as: 'admin', json: {} })
  assert.deepEqual([status, body.message], [503, 'this server is a drill: it takes no backups'])
  await drill.stop()
  assert.equal((await server.call('GET /api/storage/files/a.txt')).text, 'in the bucket')
})
