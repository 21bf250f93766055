import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { plantBackup, query, startEmbeddedServer, testFolder, upload } from '../../../test/kit/backups.ts'
import { eventually } from '../../../test/kit/kit.ts'
import { restoreBackup } from '../../db/backup/restore/restore.ts'
import { listBackups } from '../../db/backup/stored/records.ts'
import { Seals } from '../../db/backup/stored/seal.ts'
import { StoredBackup } from '../../db/backup/stored/stored-backup.ts'
import { DiskTarget } from '../../db/backup/target/disk-target.ts'
import { markRestoring } from '../../db/setup/embedded/restored.ts'

const home = testFolder()
const [dataDir, to] = [join(home, 'data'), join(home, 'target')]
const config = {
  'backup.to': to,
  'backup.passphrase': 'only for tests',
  'backup.keep': 1,
  'backup.schedule': '0 3 * * *',
}
const api = await startEmbeddedServer(dataDir, config)
const asAdmin = { as: 'admin' }
await query(
  api,
  'create table public.notes (id int primary key); insert into public.notes select generate_series(1, 100)',
)
assert.equal(await upload(api, 'a.txt', 'kept'), 201)

const jobEnds = (id: string) =>
  eventually(
    async () => {
      const { body } = await api.call(`GET /api/admin/jobs/${id}`, asAdmin)
      assert.ok(['completed', 'failed'].includes(body.state), body.state)
      return body
    },
    { seconds: 240 },
  )
const take = async () => {
  const { status, body } = await api.call('POST /api/admin/backups', { ...asAdmin, json: {} })
  assert.equal(status, 202)
  return jobEnds(body.job_id)
}
const list = async () => (await api.call('GET /api/admin/backups', asAdmin)).body

test('a backup is taken by a job that tells its progress, and is in the trail', async () => {
  const job = await take()
  assert.deepEqual([job.type, job.state, job.progress], ['backup', 'completed', 1], JSON.stringify(job))
  const { items, verified_at } = await list()
  assert.equal(items.length, 1)
  assert.deepEqual([items[0].state, items[0].kind, verified_at], ['good', 'physical', null])
  assert.deepEqual((await api.call(`GET /api/admin/backups/${items[0].id}`, asAdmin)).body, items[0])
  const trail = await query(api, `select action from svc.audit_log where action like 'backup.%'`)
  assert.deepEqual(trail, [['backup.create']])
  const { text } = await api.call('GET /metrics', asAdmin)
  assert.match(text, /^svc_backup_runs_total\{result="good"\} 1$/m)
  assert.match(text, /^svc_backup_bytes [1-9]/m)
})

test('it is verified by restoring it', async () => {
  const [{ id }] = (await list()).items
  const { status, body } = await api.call(`POST /api/admin/backups/${id}/verify`, asAdmin)
  assert.equal(status, 202)
  const job = await jobEnds(body.job_id)
  assert.equal(job.state, 'completed', JSON.stringify(job))
  const { items, verified_at } = await list()
  assert.deepEqual([items[0].verification, items[0].verified_at], ['good', verified_at])
  const shown = await api.call('GET /api/admin/status', asAdmin)
  assert.equal(shown.body.verified_backup_at, verified_at)
})

test('a directory that is filled while the seals are checked is not touched, by a server or another restore', async () => {
  const [target, seals] = [new DiskTarget(to), new Seals({ passphrase: 'only for tests' })]
  const [backup] = await listBackups(target, seals)
  assert.ok(backup)
  const restoreInto = (folder: string, meanwhile: () => void) =>
    restoreBackup({
      ...{ target, seals, backup, recovery: { kind: 'end' }, dataDir: folder, binDir: '', rootSecret: undefined },
      ...{ takeOver: false, keepCredentials: false, say: (line) => void (line.startsWith('checking') && meanwhile()) },
    })
  const folder = join(home, 'meanwhile')
  const server = () => {
    mkdirSync(folder)
    writeFileSync(join(folder, 'svc.pid'), '1')
  }
  await assert.rejects(restoreInto(folder, server), { message: `${folder} is not empty: restore into a new directory` })
  assert.deepEqual(readdirSync(folder), ['svc.pid'])
  const other = join(home, 'other')
  const restore = () => {
    mkdirSync(other)
    markRestoring(other)
  }
  await assert.rejects(restoreInto(other, restore), /other is a restore that was not finished: unless svc restore/)
  assert.deepEqual(readdirSync(other), ['restoring'])
})

test('it is downloaded as a tar that is a target', async () => {
  const [{ id }] = (await list()).items
  const response = await fetch(`${api.url}/api/admin/backups/${id}/download`, {
    headers: { authorization: `Bearer ${await api.adminToken()}` },
  })
  assert.equal(response.status, 200)
  const [tar, folder] = [join(home, 'b.tar'), join(home, 'unpacked')]
  writeFileSync(tar, Buffer.from(await response.arrayBuffer()))
  mkdirSync(folder)
  assert.equal(spawnSync('tar', ['-xf', tar, '-C', folder]).status, 0)
  const seals = new Seals({ passphrase: 'only for tests' })
  const [found, ...others] = await listBackups(new DiskTarget(folder), seals)
  assert.ok(found && others.length === 0)
  assert.deepEqual([found.id, found.state], [id, 'good'])
  // Every seal, and every file as the manifest has it.
  assert.ok((await new StoredBackup(found, new DiskTarget(folder), seals).check()).files.size > 500)
  assert.equal(readdirSync(join(folder, 'files')).length, 1)
})

test('the older one goes when a newer one is good, and what is deleted is gone', async () => {
  const [before] = (await list()).items
  assert.equal((await take()).state, 'completed')
  const { items } = await list()
  assert.deepEqual(items.length, 1)
  assert.notEqual(items[0].id, before.id)
  assert.equal((await api.call(`DELETE /api/admin/backups/${items[0].id}`, asAdmin)).status, 204)
  assert.deepEqual((await list()).items, [])
  assert.deepEqual(readdirSync(join(to, 'backups')), [])
  for (const line of ['GET', 'DELETE'] as const) {
    const { status, body } = await api.call(`${line} /api/admin/backups/${items[0].id}`, asAdmin)
    assert.deepEqual([status, body.error], [404, 'backup_not_found'])
  }
})

test('what is sealed with another key, or of another server, is never removed, and does not count', async () => {
  const ours = await query(api, `select value #>> '{}' from svc.settings where key = 'server.id'`)
  const old = { started_at: '2020-01-01T00:00:00.000Z' }
  const sealed = await plantBackup(to, 'another passphrase', old)
  const others = await plantBackup(to, 'only for tests', { ...old, server: randomUUID() })
  const fromBefore = await plantBackup(to, 'only for tests', { ...old, systemId: '1' })
  const own = await plantBackup(to, 'only for tests', { ...old, server: String(ours[0]?.[0]) })
  assert.equal((await take()).state, 'completed')
  const { items, server } = await list()
  const shown = new Map(items.map((one: { id: string; state: string }) => [one.id, one.state]))
  assert.deepEqual(
    [sealed, others, fromBefore, own].map((id) => shown.get(id)),
    ['sealed', 'good', 'good', undefined],
  )
  assert.deepEqual([items[0].server, [[server]]], [server, ours])
  const { body } = await api.call('GET /api/admin/status', asAdmin)
  assert.ok(
    body.warnings.some((line: string) => /^1 backup in .* is sealed with another key/.test(line)),
    body.warnings,
  )
  for (const { id } of items) assert.equal((await api.call(`DELETE /api/admin/backups/${id}`, asAdmin)).status, 204)
  assert.deepEqual(readdirSync(join(to, 'backups')), [])
})

test('schedules are those of the configuration', async () => {
  const { body } = await api.call('GET /api/admin/schedules', asAdmin)
  const ours = body.items.filter(({ jobType }: { jobType: string }) => jobType.startsWith('backup'))
  assert.deepEqual(
    ours.map(({ name, cronExpr }: { name: string; cronExpr: string }) => [name, cronExpr]),
    [
      ['backup', '0 3 * * *'],
      ['backup_verify', '0 5 * * 0'],
    ],
  )
})

test('removed files are kept for a backup period', async () => {
  assert.equal((await api.call('DELETE /api/storage/files/a.txt', asAdmin)).status, 204)
  await query(api, `update svc.queue set run_at = now() where kind = 'blobs.remove'`)
  await eventually(async () => {
    const rows = await query(
      api,
      `select payload->>'isLate', extract(epoch from run_at - now())::int / 3600 from svc.queue where kind = 'blobs.remove'`,
    )
    assert.deepEqual(rows, [['true', 23]])
  })
})
