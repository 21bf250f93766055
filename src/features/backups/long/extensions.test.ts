import assert from 'node:assert/strict'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { query, runSvc, startEmbeddedServer, testFolder } from '../../../../test/kit/backups.ts'

const home = testFolder()
const [dataDir, to] = [join(home, 'data'), join(home, 'target')]
const config = { 'backup.passphrase': 'only for tests', 'backup.to': to, data_dir: dataDir }

/** One without a library, so that any machine can add it. */
const source = join(home, 'greeting')
mkdirSync(source)
writeFileSync(join(source, 'greeting.control'), "default_version = '1.0'\nrelocatable = true\n")
writeFileSync(
  join(source, 'greeting--1.0.sql'),
  `create function greeting() returns text language sql as $$ select 'hello' $$;`,
)
const added = await runSvc(['extensions', 'add', 'greeting', '--from', source, '--json'], { data_dir: dataDir })
assert.equal(added.code, 0, added.err)
const { path } = JSON.parse(added.out)
const server = await startEmbeddedServer(dataDir)
await query(server, 'create extension greeting')

test('extensions that were added travel with a backup', async () => {
  const taken = await runSvc(['backup', '--json'], config)
  assert.equal(taken.code, 0, taken.err)
  const verified = await runSvc(['backup', 'verify', JSON.parse(taken.out).id], config)
  assert.equal(verified.code, 0, verified.out + verified.err)
  const copy = join(home, 'copy')
  const restored = await runSvc(['restore', '--from', to, '--data-dir', copy, '--json'], config)
  assert.equal(restored.code, 0, restored.err)
  assert.deepEqual(JSON.parse(restored.out).missing_extensions, [])
  const again = await startEmbeddedServer(copy)
  assert.deepEqual(await query(again, 'select greeting()'), [['hello']])
  assert.deepEqual(
    await query(again, `select installed_version from pg_available_extensions where name = 'greeting'`),
    [['1.0']],
  )
  await again.stop()
})

test('one whose files are in neither is named before anything is written, and at the start', async () => {
  rmSync(path, { recursive: true })
  assert.equal((await runSvc(['backup'], config)).code, 0)
  const copy = join(home, 'without')
  const restored = await runSvc(['restore', '--from', to, '--data-dir', copy], config)
  assert.equal(restored.code, 0, restored.err)
  const said = `the extension greeting is in the database, and its files are missing: svc extensions add greeting --data-dir ${copy}\n`
  assert.ok(
    restored.out.indexOf(said) >= 0 && restored.out.indexOf(said) < restored.out.indexOf('unpacking'),
    restored.out,
  )
  const again = await startEmbeddedServer(copy)
  const { body } = await again.call('GET /api/admin/status', { as: 'admin' })
  assert.match(body.warnings.join('\n'), /the extension greeting is in the database, and its files are missing/)
  await again.stop()
})

test('one that was added to the new directory before the restore is there', async () => {
  const copy = join(home, 'prepared')
  const prepared = await runSvc(['extensions', 'add', 'greeting', '--from', source], { data_dir: copy })
  assert.equal(prepared.code, 0, prepared.err)
  const restored = await runSvc(['restore', '--from', to, '--data-dir', copy, '--json'], config)
  assert.equal(restored.code, 0, restored.err)
  assert.deepEqual(JSON.parse(restored.out).missing_extensions, [])
  const again = await startEmbeddedServer(copy)
  assert.deepEqual(
    await query(again, `select installed_version from pg_available_extensions where name = 'greeting'`),
    [['1.0']],
  )
  await again.stop()
})
