import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../../../../test/kit/at-end.ts'
import { query, runSvc, startEmbeddedServer, testFolder } from '../../../../test/kit/backups.ts'
import { eventually } from '../../../../test/kit/kit.ts'

const passphrase = { 'backup.passphrase': 'only for tests' }
const asAdmin = { as: 'admin' }

/** A folder with so many megabytes, or undefined where this account may not mount. */
function smallDisk(megabytes: number): { folder: string; resize(megabytes: number): void } | undefined {
  const folder = join(testFolder(), 'disk')
  mkdirSync(folder)
  const mount = (options: string): boolean =>
    spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder]).status === 0
  if (process.platform !== 'linux' || !mount(`size=${megabytes}m,mode=0700`)) return undefined
  atEnd(() => void spawnSync('umount', [folder]))
  return { folder, resize: (size) => assert.ok(mount(`remount,size=${size}m`)) }
}

/** Bytes that do not become fewer by compression. */
const fill = (megabytes: number) =>
  `insert into public.noise (body) select string_agg(sha512(random()::text::bytea), ''::bytea) from generate_series(1, ${megabytes * 16384}) n group by n % ${megabytes * 16}`

type Listed = { id: string; state: string; error?: string }
const listed = async (config: Record<string, unknown>): Promise<Listed[]> =>
  JSON.parse((await runSvc(['backup', 'list', '--json'], config)).out).items

test('a target that is full: that backup has failed, the one before holds, writes go on, with room the next is good', async (t) => {
  const disk = smallDisk(40)
  if (!disk) return t.skip('this account may not mount')
  const dataDir = join(testFolder(), 'data')
  const config = { ...passphrase, 'backup.to': join(disk.folder, 'target'), data_dir: dataDir }
  const server = await startEmbeddedServer(dataDir, passphrase)
  await query(server, 'create table public.noise (id serial primary key, body bytea, title text)')
  assert.equal((await runSvc(['backup'], config)).code, 0)
  await query(server, fill(60))
  const full = await runSvc(['backup'], config)
  assert.equal(full.code, 1)
  assert.match(full.err, /ENOSPC/)
  const after = await listed(config)
  assert.deepEqual(
    after.map(({ state }) => state),
    ['good', 'failed'],
  )
  assert.match(after[1]?.error ?? '', /ENOSPC/)
  const { status } = await server.call('POST /api/collections/noise', { ...asAdmin, json: { title: 'x' } })
  assert.equal(status, 201)
  const held = await runSvc(['backup', 'verify', after[0]?.id ?? ''], config)
  assert.equal(held.code, 0, held.out + held.err)
  disk.resize(400)
  const taken = await runSvc(['backup', '--json'], config)
  assert.equal(taken.code, 0, taken.err)
  const verified = await runSvc(['backup', 'verify', JSON.parse(taken.out).id], config)
  assert.equal(verified.code, 0, verified.out + verified.err)
})

test('an archive whose target is full says so, holds up no write, and is whole once there is room', async (t) => {
  const disk = smallDisk(40)
  if (!disk) return t.skip('this account may not mount')
  const dataDir = join(testFolder(), 'data')
  const to = join(disk.folder, 'target')
  const config = { ...passphrase, 'backup.to': to, 'backup.continuous': 'async' }
  const server = await startEmbeddedServer(dataDir, config)
  await query(server, 'create table public.noise (id serial primary key, body bytea, title text)')
  await eventually(
    async () => {
      const { body } = await server.call('GET /api/admin/backups', asAdmin)
      assert.equal(body.items[0]?.state, 'good')
    },
    { seconds: 240 },
  )
  await query(server, fill(80))
  await eventually(
    async () => {
      const { body } = await server.call('GET /api/admin/status', asAdmin)
      assert.match(body.warnings.join('\n'), /the archive does not go on: ENOSPC/)
    },
    { seconds: 240 },
  )
  const last = await server.call('POST /api/collections/noise', { ...asAdmin, json: { title: 'x' } })
  assert.equal(last.status, 201)
  disk.resize(600)
  const [[position] = []] = await query(server, 'select pg_current_wal_lsn()::text')
  await eventually(
    async () => {
      const rows = await query(
        server,
        `select restart_lsn >= '${position}' from pg_replication_slots where slot_name = 'svc_archive'`,
      )
      assert.deepEqual(rows, [[true]])
    },
    { seconds: 240 },
  )
  await server.stop()
  const copy = join(testFolder(), 'copy')
  const restored = await runSvc(['restore', '--from', to, '--data-dir', copy], config)
  assert.equal(restored.code, 0, restored.err)
  const again = await startEmbeddedServer(copy)
  assert.deepEqual(await query(again, `select max(id) from public.noise`), [[last.body.id]])
  await again.stop()
})
