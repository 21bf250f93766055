import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { query, runSvc, startEmbeddedServer, testFolder } from '../../../../test/kit/backups.ts'

const home = testFolder()
const [dataDir, to] = [join(home, 'data'), join(home, 'target')]
const passphrase = { 'backup.passphrase': 'correct horse battery staple' }
const server = await startEmbeddedServer(dataDir)
await query(
  server,
  `create table public.notes (id int primary key, title text);
  insert into public.notes select n, 'note ' || n from generate_series(1, 1000) n`,
)
assert.equal((await runSvc(['backup', '--to', to, '--data-dir', dataDir], passphrase)).code, 0)

test('svc backup verify restores it for a check, and prune keeps what is kept', async () => {
  const config = { ...passphrase, 'backup.to': to, data_dir: dataDir, 'backup.keep': 1 }
  const [{ id }] = JSON.parse((await runSvc(['backup', 'list', '--json'], config)).out).items
  const { code, out } = await runSvc(['backup', 'verify', id, '--json'], config)
  const verdict = JSON.parse(out)
  assert.deepEqual([code, verdict.id, verdict.verification], [0, id, 'good'])
  assert.ok(verdict.tables > 50 && verdict.rows > 1000 && verdict.indexes > 100, out)
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.startsWith('verify-')),
    [],
  )
  const listed = JSON.parse((await runSvc(['backup', 'list', '--json'], config)).out).items[0]
  assert.deepEqual([listed.verification, listed.verified_at], ['good', verdict.verified_at])
  assert.deepEqual((await runSvc(['backup', 'prune', '--json'], config)).out, '{"backups":[],"files":0,"segments":0}\n')
  const unknown = await runSvc(['backup', 'verify', '../x'], config)
  assert.deepEqual([unknown.code, unknown.err], [1, `there is no backup "../x" in ${to}\n`])
})

test('without a passphrase the root secret stays with the operator', async () => {
  const plain = join(home, 'plain')
  assert.equal((await runSvc(['backup', '--to', plain, '--data-dir', dataDir])).code, 0)
  const into = join(home, 'from-plain')
  const without = await runSvc(['restore', '--from', plain, '--data-dir', into])
  assert.equal(without.code, 1)
  assert.match(without.err, /--root-secret FILE/)
  const secret = ['--root-secret', join(dataDir, 'root-secret'), '--take-over']
  const given = await runSvc(['restore', '--from', plain, '--data-dir', into, ...secret])
  assert.deepEqual([given.code, given.err], [0, ''])
  assert.doesNotMatch(given.out, /drill/)
  const bucket = await runSvc(['backup', '--to', 's3://bucket/x', '--data-dir', dataDir])
  assert.equal(bucket.code, 1)
  assert.match(bucket.err, /^s3:\/\/bucket\/x needs backup.passphrase or backup.key_file, or backup.plain = true/)
  const owner = await startEmbeddedServer(into)
  assert.equal((await owner.call('GET /api/admin/status', { as: 'admin' })).body.drill, undefined)
  await owner.stop()
})
