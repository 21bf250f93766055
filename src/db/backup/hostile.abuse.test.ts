import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { testFolder } from '../../../test/kit/backups.ts'
import { findBinaries } from '../setup/embedded/binaries.ts'
import { configureCluster } from './restore/configuration.ts'
import { restoreBackup } from './restore/restore.ts'
import { chooseBackup } from './stored/choose.ts'
import { type BackupDetails, listBackups, newBackupId, objectOf, writeRecord } from './stored/records.ts'
import { MOST_CHUNK, Seals } from './stored/seal.ts'
import { StoredBackup } from './stored/stored-backup.ts'
import { DiskTarget } from './target/disk-target.ts'

// A target is not trusted: here it even knows the passphrase.
const seals = new Seals({ passphrase: 'known to the attacker' })
const { major } = findBinaries(undefined, undefined)

type Entry = { name: string; type?: string; body?: Buffer; size?: number }

function tarOf(entries: readonly Entry[]): Buffer {
  const blocks = entries.flatMap(({ name, type = '0', body = Buffer.alloc(0), size = body.length }) => {
    const head = Buffer.alloc(512)
    head.write(name, 0)
    head.write('0000600\0', 100)
    head.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
    head.write('        ', 148)
    head.write(type, 156)
    head.write('ustar\x0000', 257)
    head.write('/etc', 157)
    const sum = head.reduce((total, byte) => total + byte, 0)
    head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
    return [head, body, Buffer.alloc((512 - (body.length % 512)) % 512)]
  })
  return Buffer.concat([...blocks, Buffer.alloc(1024)])
}

type Listed = { path: string; body: Buffer }

function manifestOf(files: readonly Listed[]): string {
  const lines = files.map(({ path, body }) =>
    JSON.stringify({
      Path: path,
      Size: body.length,
      'Checksum-Algorithm': 'SHA256',
      Checksum: createHash('sha256').update(body).digest('hex'),
    }),
  )
  const text = `{ "PostgreSQL-Backup-Manifest-Version": 2,\n"Files": [\n${lines.join(',\n')}\n],\n"WAL-Ranges": [],\n`
  return `${text}"Manifest-Checksum": "${createHash('sha256').update(text).digest('hex')}"}\n`
}

async function* one(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

/** A backup that its target made up. */
async function plant(entries: readonly Entry[], files: readonly Listed[], change: Partial<BackupDetails> = {}) {
  const target = new DiskTarget(join(testFolder(), 'target'))
  const id = newBackupId()
  const now = new Date().toISOString()
  const put = (name: string, bytes: Buffer) => {
    const object = objectOf(id, name)
    return target.put(object, seals.seal(object, one(bytes)))
  }
  await put('base', tarOf(entries))
  await put('manifest', Buffer.from(manifestOf(files)))
  await put('secret', Buffer.from('s'.repeat(64)))
  const details: BackupDetails = {
    ...{ id, version: 1, state: 'good', kind: 'physical', started_at: now, finished_at: now, bytes: 1, from: '0/1' },
    ...{ to: '0/2', major, systemId: '1', timeline: 1, segmentSize: 2 ** 24, database: 'postgres', user: 'postgres' },
    ...{ objects: ['base', 'manifest', 'secret'], files: { kind: 'copied', count: 0, bytes: 0 }, archive: null },
    ...{ consistent_at: now, touched_at: now, app: 'x' },
    ...change,
  }
  await writeRecord(target, seals, objectOf(id, 'done'), details)
  return { target, id, folder: join(target.url, 'backups', id) }
}

async function refusal(target: DiskTarget, id?: string): Promise<string> {
  const dataDir = join(testFolder(), 'new')
  const begun: string[] = []
  try {
    const backup = await chooseBackup(target, seals, { id })
    await restoreBackup({
      ...{
        target,
        seals,
        backup,
        recovery: { kind: 'end' },
        dataDir,
        binDir: '',
        rootSecret: undefined,
        takeOver: false,
        keepCredentials: false,
      },
      say: (line) => begun.push(line),
    })
  } catch (error) {
    assert.equal(existsSync(dataDir), false, 'nothing was written')
    assert.ok(!begun.some((line) => line === 'unpacking the database'))
    return (error as Error).message
  }
  return 'accepted'
}

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => statSync(join(folder, name)).isFile())

const file = (path: string, text = 'x'): { entry: Entry; listed: Listed } => {
  const body = Buffer.from(text)
  return { entry: { name: path, body }, listed: { path, body } }
}
const version = file('PG_VERSION', `${major}\n`)

test('names outside of the folder, links and files that the manifest does not name are refused', async () => {
  const cases: [entry: Entry, listed: Listed[], said: RegExp][] = [
    [{ name: '../evil', body: Buffer.from('x') }, [file('../evil').listed], /outside of its folder: "\.\.\/evil"/],
    [{ name: 'base/../../evil', body: Buffer.from('x') }, [], /outside of its folder/],
    [{ name: '/etc/cron.d/evil', body: Buffer.from('x') }, [file('/etc/cron.d/evil').listed], /outside of its folder/],
    [{ name: '../evil', type: '5' }, [], /outside of its folder/],
    [{ name: 'pg_wal', type: '2' }, [], /no file: "pg_wal"/],
    [{ name: 'base/1', type: '1' }, [file('base/1').listed], /no file: "base\/1"/],
    [{ name: 'dev', type: '3' }, [], /no file: "dev"/],
    [file('lib.so').entry, [], /manifest does not name: "lib.so"/],
    [file('base/1', 'longer').entry, [file('base/1').listed], /manifest does not name: "base\/1"/],
    [file('base/1', 'y').entry, [file('base/1').listed], /base\/1 differs from the manifest/],
    [version.entry, [], /twice|does not name/],
  ]
  for (const [entry, listed, said] of cases) {
    const { target } = await plant([version.entry, entry], [version.listed, ...listed])
    assert.match(await refusal(target), said)
  }
  const { target } = await plant([version.entry], [version.listed, file('base/1').listed])
  assert.match(await refusal(target), /the backup has no base\/1/)
})

test('configuration that the target planted is not written, whatever the manifest says', async () => {
  const planted = [
    ...['postgresql.conf', 'postgresql.auto.conf', 'pg_hba.conf', 'pg_ident.conf', 'conf.d/more.conf'],
    ...['standby.signal', 'recovery.signal', 'tablespace_map', 'postmaster.opts'],
  ].map((path) => file(path, "archive_command = 'touch /tmp/evil'\nshared_preload_libraries = 'evil'\n"))
  const { target, id } = await plant(
    [version.entry, ...planted.map(({ entry }) => entry)],
    [version.listed, ...planted.map(({ listed }) => listed)],
  )
  const stored = new StoredBackup(await chooseBackup(target, seals, { id }), target, seals)
  const folder = testFolder()
  await stored.unpack(await stored.check(), folder)
  assert.deepEqual(filesIn(folder), ['PG_VERSION'])
  configureCluster(folder)
  for (const name of filesIn(folder)) assert.doesNotMatch(readFileSync(join(folder, name), 'utf8'), /evil/, name)
  assert.equal(readFileSync(join(folder, 'postgresql.auto.conf'), 'utf8'), '')
})

test('a changed byte, a missing end and another object in its place are refused', async () => {
  for (const name of ['base', 'manifest', 'secret']) {
    const { target, folder } = await plant([version.entry], [version.listed])
    const bytes = readFileSync(join(folder, name))
    const changed = Buffer.from(bytes)
    changed[changed.length - 20] = (changed.at(-20) ?? 0) ^ 1
    writeFileSync(join(folder, name), changed)
    assert.match(await refusal(target), /seal of backups\/.* does not fit/, name)
    writeFileSync(join(folder, name), bytes.subarray(0, bytes.length - 1))
    assert.match(await refusal(target), /is cut off/, name)
    writeFileSync(join(folder, name), Buffer.concat([bytes, Buffer.from('more')]))
    assert.match(await refusal(target), /does not fit/, name)
  }
  const [a, b] = [await plant([version.entry], [version.listed]), await plant([version.entry], [version.listed])]
  writeFileSync(join(a.folder, 'base'), readFileSync(join(b.folder, 'base')))
  assert.match(await refusal(a.target), /seal of .*base does not fit/)
  writeFileSync(join(a.folder, 'done'), readFileSync(join(b.folder, 'done')))
  assert.match(await refusal(a.target), /seal of .*done does not fit/)
})

test('a bomb is not expanded', async () => {
  const { target, folder, id } = await plant([version.entry], [version.listed])
  const object = objectOf(id, 'base')
  const zeros = Buffer.alloc(64 * MOST_CHUNK)
  for (const bomb of [
    { bytes: gzipSync(zeros), flags: 2 },
    { bytes: brotliCompressSync(zeros), flags: 8 },
  ]) {
    const writer = await seals.writer(object)
    writeFileSync(join(folder, 'base'), Buffer.concat([writer.header, writer.chunk(bomb, true)]))
    assert.match(await refusal(target), /larger than it can be/)
  }
})

test('an id is looked up in the list and is never a path', async () => {
  const { target, id } = await plant([version.entry], [version.listed])
  for (const wrong of ['../backups', `../backups/${id}`, `${id}/`, '', '..', '/etc/passwd', '%2e%2e']) {
    assert.match(await refusal(target, wrong), /^there is no backup /)
  }
  // Names that others put there are not passed on, and links are not followed.
  symlinkSync('/etc', join(target.url, 'backups', '20200101t000000z-aaaaaa'))
  assert.deepEqual(
    (await listBackups(target, seals)).map((backup) => backup.id),
    [id],
  )
  await assert.rejects(target.get('../../etc/passwd'), /not the name of an object/)
  await assert.rejects(target.get('backups/../x'), /not the name of an object/)
})

test('another passphrase opens nothing and says so', async () => {
  const { target } = await plant([version.entry], [version.listed])
  const others = new Seals({ passphrase: 'another one' })
  await assert.rejects(chooseBackup(target, others, {}), /passphrase or root secret is another one/)
  await assert.rejects(chooseBackup(target, new Seals({ rootSecret: 'x'.repeat(64) }), {}), /this backup is encrypted/)
})
