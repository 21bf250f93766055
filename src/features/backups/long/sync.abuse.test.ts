import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { startS3 } from '../../../../test/fakes/s3-server.ts'
import {
  folderElsewhere,
  query,
  runSvc,
  startEmbeddedServer,
  testFolder,
  upload,
} from '../../../../test/kit/backups.ts'
import { eventually } from '../../../../test/kit/kit.ts'

const home = testFolder()
// What survives the loss of a disk lies on another one.
const elsewhere = folderElsewhere(home)
const skip = elsewhere === undefined && 'this machine has one file system'
const passphrase = { 'backup.passphrase': 'only for tests' }
const dataDir = join(home, 'data')
const to = join(elsewhere ?? home, 'target')
const config = { 'backup.to': to, 'backup.continuous': 'sync', 'backup.sync_timeout': 5, ...passphrase }
const asAdmin = { as: 'admin' }

test('a target on the file system of the data, and another standby, are refused at the start', { skip }, async () => {
  const same = { 'backup.to': join(home, 'same'), 'backup.continuous': 'sync', ...passphrase, 'server.port': 0 }
  const { code, err } = await runSvc(['start', '--data-dir', join(home, 'refused')], same)
  assert.equal(code, 1)
  assert.match(err, /^backup.continuous = "sync" needs a target on another file system than data_dir: [^\n]+\n$/)
  const patroni = join(home, 'patroni')
  const first = await startEmbeddedServer(patroni)
  // There is no such node, and nothing shall wait for it.
  await query(first, `alter system set synchronous_commit = 'local'`)
  await query(first, `alter system set synchronous_standby_names = 'node2'`)
  await first.stop()
  await assert.rejects(startEmbeddedServer(patroni, config), /it is set already \(node2\): use "async"/)
})

test('an acknowledged write and an acknowledged upload are in the target, without waiting for anything', {
  skip,
}, async () => {
  const server = await startEmbeddedServer(dataDir, config)
  await eventually(
    async () => {
      const { body } = await server.call('GET /api/admin/backups', asAdmin)
      assert.equal(body.items[0]?.state, 'good')
    },
    { seconds: 240 },
  )
  await query(server, 'create table public.notes (id int primary key)')
  assert.deepEqual(await query(server, 'show synchronous_standby_names'), [['svc_archive']])
  const ids = Array.from({ length: 50 }, (_, id) => id)
  await Promise.all(
    ids.map(async (id) => {
      const { status } = await server.call('POST /api/collections/notes', { ...asAdmin, json: { id } })
      assert.equal(status, 201)
    }),
  )
  assert.equal(await upload(server, 'a.txt', 'kept'), 201)
  // A copy of the target as it is at this moment is all that is left.
  const copy = join(home, 'copy')
  const { code, err } = await runSvc(['restore', '--from', to, '--data-dir', copy], passphrase)
  assert.equal(code, 0, err)
  const restored = await startEmbeddedServer(copy)
  assert.deepEqual(await query(restored, 'select count(*) from public.notes'), [[50]])
  assert.equal((await restored.call('GET /api/storage/files/a.txt')).text, 'kept')
  await restored.stop()
  await server.stop()
})

test('with a dead target writes go on as async, and are sync again by themselves', async () => {
  const s3 = await startS3()
  const bucket = { ...s3.config, 'storage.backend': 'local', 'backup.to': `s3://${s3.store.bucket}/a` }
  const server = await startEmbeddedServer(join(home, 's3'), { ...config, ...bucket })
  await query(server, 'create table public.notes (id int primary key)')
  const note = (id: number) => server.call('POST /api/collections/notes', { ...asAdmin, json: { id } })
  const names = () => query(server, 'show synchronous_standby_names')
  assert.equal((await note(1)).status, 201)
  await eventually(async () => assert.deepEqual(await names(), [['svc_archive']]), { seconds: 240 })
  await s3.kill()
  assert.equal((await note(2)).status, 201)
  assert.deepEqual(await names(), [['']])
  const { body } = await server.call('GET /api/admin/status', asAdmin)
  assert.match(body.warnings.join('\n'), /the archive is behind, and writes do not wait for it/)
  await s3.start()
  await eventually(async () => assert.deepEqual(await names(), [['svc_archive']]), { seconds: 240 })
  await eventually(async () => {
    const rows = await query(server, `select action from svc.audit_log where action like 'archive.%' order by at`)
    assert.deepEqual(rows.slice(-2), [['archive.degraded'], ['archive.restored']])
  })
  await server.stop()

  const strict = await startEmbeddedServer(join(home, 's3'), { ...config, ...bucket, 'backup.sync_strict': true })
  const strictNote = (id: number) => strict.call('POST /api/collections/notes', { ...asAdmin, json: { id } })
  // One whose outcome is unknown may be there: each try is another row.
  let next = 10
  const isWritten = async () => assert.equal((await strictNote(next++)).status, 201)
  await eventually(isWritten, { seconds: 240 })
  await eventually(
    async () => assert.deepEqual(await query(strict, 'show synchronous_standby_names'), [['svc_archive']]),
    { seconds: 240 },
  )
  await s3.kill()
  const refused = await strictNote(4)
  assert.deepEqual([refused.status, refused.body.data?.outcome?.code], [503, 'unknown'])
  assert.equal((await strict.call('GET /api/collections/notes', asAdmin)).status, 200)
  await s3.start()
  await eventually(isWritten, { seconds: 240 })
  await strict.stop()
})
