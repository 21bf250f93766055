import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, rmSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { query, runSvc, startEmbeddedServer, testFolder, upload } from '../../../../test/kit/backups.ts'

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

test('after the passphrase was changed old backups stay, and both passphrases bring all files back', async () => {
  const rotated = join(home, 'rotated')
  const [first, second] = ['the first passphrase', 'the second passphrase'].map((text) => ({
    ...{ 'backup.passphrase': text, 'backup.to': rotated, data_dir: dataDir, 'backup.keep': 1 },
  }))
  assert.equal(await upload(server, 'hello.txt', 'hello from a file'), 201)
  for (const config of [first, first, second]) assert.equal((await runSvc(['backup'], config)).code, 0)
  const pruned = JSON.parse((await runSvc(['backup', 'prune', '--json'], second)).out)
  const listed = async () => JSON.parse((await runSvc(['backup', 'list', '--json'], second)).out).items
  const [one, two, three] = await listed()
  assert.deepEqual([one.state, two.state, three.state], ['sealed', 'sealed', 'good'])
  assert.deepEqual(pruned, { backups: [], files: 0, segments: 0, untouched: [one.id, two.id] })
  for (const [name, config] of Object.entries({ first, second })) {
    const into = join(home, `from-${name}`)
    const { code, out, err } = await runSvc(['restore', '--from', rotated], { ...config, data_dir: into })
    assert.deepEqual([code, err], [0, ''], out)
    const files = readdirSync(join(into, 'storage', 'blobs'), { recursive: true, encoding: 'utf8' })
    assert.deepEqual(
      files.filter((file) => file.includes('/')).map((file) => readFileSync(join(into, 'storage/blobs', file), 'utf8')),
      ['hello from a file'],
    )
  }
  // The old passphrase sees the new backup as it is seen the other way round.
  assert.match(
    (await runSvc(['backup', 'prune'], first)).out,
    /^removed 1 backups, 0 files .*; left 1 of other servers or sealed with another key/,
  )
  assert.deepEqual(
    (await listed()).map(({ id }: { id: string }) => id),
    [two.id, three.id],
  )
  // Without backups of other keys in the target, their files go too.
  const copies = readdirSync(join(rotated, 'files'), { recursive: true, encoding: 'utf8' })
  const blobs = copies.filter((name) => name.split('/').length === 3)
  assert.equal(blobs.length, 2)
  for (const name of blobs) utimesSync(join(rotated, 'files', name), 0, 0)
  const prune = async () => JSON.parse((await runSvc(['backup', 'prune', '--json'], second)).out)
  assert.deepEqual(await prune(), { backups: [], files: 0, segments: 0, untouched: [two.id] })
  rmSync(join(rotated, 'backups', two.id), { recursive: true })
  assert.deepEqual(await prune(), { backups: [], files: 1, segments: 0 })
  assert.equal((await runSvc(['backup', 'verify', three.id], second)).code, 0)
})

test('a new server on the target of a lost one removes nothing of it', async () => {
  const [shared, fresh] = [join(home, 'shared'), join(home, 'fresh')]
  const config = { ...passphrase, 'backup.to': shared, 'backup.keep': 1 }
  const lost = JSON.parse((await runSvc(['backup', '--json'], { ...config, data_dir: dataDir })).out)
  for (let i = 0; i < 2; i++) assert.equal((await runSvc(['backup'], { ...config, data_dir: fresh })).code, 0)
  const pruned = JSON.parse((await runSvc(['backup', 'prune', '--json'], { ...config, data_dir: fresh })).out)
  assert.deepEqual([pruned.backups.length, pruned.untouched], [1, [lost.id]])
  const which = await runSvc(['restore', '--from', shared], { ...config, data_dir: join(home, 'which') })
  assert.deepEqual([which.code, which.out], [1, ''])
  assert.match(which.err, /^backups of 2 servers are in .*: name one by its id \(svc backup list --to .*\)\n$/)
  const named = await runSvc(['restore', '--from', shared, lost.id], { ...config, data_dir: join(home, 'which') })
  assert.deepEqual([named.code, named.err], [0, ''])
  const nowhere = join(home, 'nowhere')
  const refused = await runSvc(['backup', 'prune'], { ...config, data_dir: nowhere })
  assert.deepEqual([refused.code, existsSync(nowhere)], [1, false])
  assert.match(refused.err, /^there is no database in /)
})
