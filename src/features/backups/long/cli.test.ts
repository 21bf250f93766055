import assert from 'node:assert/strict'
import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { query, runSvc, startEmbeddedServer, testFolder, upload } from '../../../../test/kit/backups.ts'

const home = testFolder()
const [dataDir, to, copy] = [join(home, 'data'), join(home, 'target'), join(home, 'copy')]
const passphrase = { 'backup.passphrase': 'correct horse battery staple' }
const server = await startEmbeddedServer(dataDir)
await query(
  server,
  `create table public.notes (id int primary key, title text);
  insert into public.notes select n, 'note ' || n from generate_series(1, 1000) n`,
)
assert.equal(await upload(server, 'hello.txt', 'hello from a file'), 201)

const filesOf = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => statSync(join(folder, name)).isFile())

test('svc backup while the server runs: a good one with its files, the owner’s alone', async () => {
  const { code, out, err } = await runSvc(['backup', '--to', to, '--data-dir', dataDir, '--json'], passphrase)
  assert.deepEqual([code, err], [0, ''])
  const taken = JSON.parse(out)
  assert.equal(taken.state, 'good')
  assert.equal(taken.kind, 'physical')
  assert.match(taken.from, /^[0-9A-F]+\/[0-9A-F]+$/)
  assert.match(taken.to, /^[0-9A-F]+\/[0-9A-F]+$/)
  assert.ok(taken.bytes > 1000 && taken.started_at <= taken.finished_at)
  const listed = await runSvc(['backup', 'list', '--to', to, '--data-dir', dataDir, '--json'], passphrase)
  assert.deepEqual(JSON.parse(listed.out), { items: [taken] })
  for (const name of filesOf(to)) assert.equal(statSync(join(to, name)).mode & 0o777, 0o600, name)
  const [entry] = await query(server, `select actor, target from svc.audit_log where action = 'backup.create'`)
  assert.deepEqual(entry, ['admin', taken.id])
})

test('svc restore makes a drill of it, with rows, files and the root secret', async () => {
  const { code, out, err } = await runSvc(['restore', '--from', to, '--data-dir', copy], passphrase)
  assert.deepEqual([code, err], [0, ''], out)
  assert.match(out, /It is a drill/)
  const again = await runSvc(['restore', '--from', to, '--data-dir', copy], passphrase)
  assert.deepEqual([again.code, again.err], [1, `${copy} is not empty: restore into a new directory\n`])
})

test('a drill serves its data, says what it is, and sends and backs up nothing', async () => {
  const drill = await startEmbeddedServer(copy)
  assert.deepEqual(await query(drill, 'select count(*) from public.notes'), [[1000]])
  const { text } = await drill.call('GET /api/storage/files/hello.txt')
  assert.equal(text, 'hello from a file')
  const { body } = await drill.call('GET /api/admin/status', { as: 'admin' })
  assert.equal(body.drill, true)
  assert.match(body.warnings[0], /^this server is a drill: /)
  // A session of the copied server is good here too: the root secret travelled with it.
  assert.equal((await drill.call('DELETE /api/storage/files/hello.txt', { as: 'admin' })).status, 204)
  await query(drill, `update svc.queue set run_at = now()`)
  assert.deepEqual(await query(drill, `select kind, attempts from svc.queue`), [['blobs.remove', 0]])
  const refused = await runSvc(['backup', '--to', join(home, 'other'), '--data-dir', copy], passphrase)
  assert.equal(refused.code, 1)
  assert.match(refused.err, /is a drill: svc restore take-over/)
  await drill.stop()
  const taken = await runSvc(['restore', 'take-over', '--data-dir', copy, '--json'])
  assert.deepEqual([taken.code, taken.err, taken.out], [0, '', '{"drill":false}\n'])
})

test('a restore that was killed is not a database', async () => {
  writeFileSync(join(copy, 'restoring'), '')
  const { code, err } = await runSvc(['start', '--data-dir', copy, '--port', '0'])
  assert.equal(code, 1)
  assert.match(
    err,
    /is a restore that was not finished: unless svc restore still runs, delete the directory and run it again\n$/,
  )
})
