import assert from 'node:assert/strict'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { query, runSvc, startEmbeddedServer, testFolder, upload } from '../../../../test/kit/backups.ts'
import { eventually } from '../../../../test/kit/kit.ts'

const home = testFolder()
const [dataDir, to] = [join(home, 'data'), join(home, 'target')]
const passphrase = { 'backup.passphrase': 'only for tests' }
const server = await startEmbeddedServer(dataDir, { 'backup.to': to, 'backup.continuous': 'async', ...passphrase })
const asAdmin = { as: 'admin' }
await query(server, 'create table public.notes (id int primary key, title text)')

const add = async (id: number, requestId = `request-${id}`) => {
  const headers = { 'x-request-id': requestId }
  const { status } = await server.call('POST /api/collections/notes', { ...asAdmin, json: { id, title: 'x' }, headers })
  assert.equal(status, 201)
}
const restoreTo = async (name: string, ...more: string[]) => {
  const ran = await runSvc(['restore', '--from', to, '--data-dir', join(home, name), ...more], passphrase)
  assert.equal(ran.code, 0, ran.err + ran.out)
  return { ...ran, server: await startEmbeddedServer(join(home, name)) }
}
const lsn = async () => String((await query(server, 'select pg_current_wal_lsn()::text'))[0]?.[0])
/** The target has everything up to now. */
const archived = async () => {
  const now = await lsn()
  await eventually(
    async () => {
      const rows = await query(
        server,
        `select restart_lsn >= '${now}' from pg_replication_slots where slot_name = 'svc_archive'`,
      )
      assert.deepEqual(rows, [[true]])
    },
    { seconds: 240 },
  )
}

const indexes = (): number =>
  existsSync(join(to, 'index'))
    ? readdirSync(join(to, 'index'), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).length
    : 0
const indexedSince = (before: number) => eventually(() => assert.ok(indexes() > before), { seconds: 240 })

test('a new archive takes its base backup by itself', async () => {
  await eventually(
    async () => {
      const { body } = await server.call('GET /api/admin/backups', asAdmin)
      assert.deepEqual(
        body.items.map(({ state }: { state: string }) => state),
        ['good'],
      )
    },
    { seconds: 240 },
  )
})

test('what came after it is there: to the end, to a moment, to before a request; and the file with its row', async () => {
  // The moment of a request is known as between two steps of the index, and both have to be after the backup.
  const first = indexes()
  await add(0)
  await indexedSince(first)
  await add(1)
  assert.equal(await upload(server, 'late.txt', 'after the base backup'), 201)
  const { body: key } = await server.call('POST /api/auth/register', {
    json: { email: 'a@x.test', password: 'long enough' },
  })
  assert.ok(key.token)
  const [[moment] = []] = await query(
    server,
    `select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD HH24:MI:SS.US+00')`,
  )
  await add(2)
  const indexed = indexes()
  await add(3)
  await query(server, 'drop table public.notes')
  await archived()
  // Its index is written a moment later.
  await indexedSince(indexed)
  await eventually(() => assert.equal(readdirSync(join(to, 'files')).length, 1), { seconds: 240 })

  const end = await restoreTo('end')
  assert.deepEqual(await query(end.server, `select to_regclass('public.notes')::text`), [[null]])
  assert.equal((await end.server.call('GET /api/storage/files/late.txt')).text, 'after the base backup')
  assert.deepEqual(await query(end.server, 'select count(*) from svc.sessions'), [[1]])
  await end.server.stop()

  const at = await restoreTo('at', '--at', String(moment))
  assert.deepEqual(await query(at.server, 'select id from public.notes order by id'), [[0], [1]])
  assert.match(at.out, /1 sessions, and all grants and tokens, ended/)
  assert.deepEqual(await query(at.server, 'select count(*) from svc.sessions'), [[0]])
  await at.server.stop()

  const before = await restoreTo('before', '--before', 'request-3', '--keep-credentials')
  assert.deepEqual(await query(before.server, 'select id from public.notes order by id'), [[0], [1], [2]])
  assert.deepEqual(await query(before.server, 'select count(*) from svc.sessions'), [[1]])
  await before.server.stop()
})

test('moments that are none are refused, and past the end is the end', async () => {
  const restore = (...more: string[]) =>
    runSvc(['restore', '--from', to, '--data-dir', join(home, 'refused'), ...more], passphrase)
  const both = await restore('--at', '2026-01-01 00:00:00+00', '--before', 'x')
  assert.deepEqual([both.code, both.err], [2, '--at and --before exclude each other\n'])
  const early = await restore('--at', '2020-01-01 00:00:00+00')
  assert.deepEqual([early.code, early.err], [1, 'no good backup was whole at 2020-01-01 00:00:00+00:00\n'])
  const unknown = await restore('--before', 'no-such-request')
  assert.deepEqual([unknown.code, unknown.err], [1, 'the archive knows no request "no-such-request"\n'])
  assert.equal((await restore('--at', 'yesterday')).code, 2)
  const late = await restore('--at', '2099-01-01 00:00:00+00')
  assert.equal(late.code, 0, late.err)
  assert.match(late.out, /the log ends before that moment: this is its end/)
})

test('several transactions of one request are listed instead of chosen from', async () => {
  await query(server, 'create table public.notes (id int primary key, title text)')
  await eventually(() => add(11, 'twice'))
  await add(12, 'twice')
  await archived()
  const restored = await eventually(
    async () => {
      rmSync(join(home, 'twice'), { recursive: true, force: true })
      const ran = await runSvc(
        ['restore', '--from', to, '--data-dir', join(home, 'twice'), '--before', 'twice'],
        passphrase,
      )
      assert.match(ran.err, /several/)
      return ran
    },
    { seconds: 240 },
  )
  assert.match(restored.err, /^several transactions belong to the request: transaction \d+ at .*, transaction \d+ at /)
})

test('a server that stops leaves nothing behind in the archive, and the next one goes on in it', async () => {
  await add(21)
  await server.stop()
  const again = await startEmbeddedServer(dataDir, { 'backup.to': to, 'backup.continuous': 'async', ...passphrase })
  assert.equal(readdirSync(join(to, 'wal')).length, 1)
  await again.stop()
  // With another passphrase another archive begins, because no key opens both.
  const changed = { 'backup.to': to, 'backup.continuous': 'async', 'backup.passphrase': 'another one' }
  const sealedAnew = await startEmbeddedServer(dataDir, changed)
  await eventually(
    async () => {
      assert.equal(readdirSync(join(to, 'wal')).length, 2)
      const { items } = (await sealedAnew.call('GET /api/admin/backups', asAdmin)).body
      const states = new Set(items.map(({ state }: { state: string }) => state))
      assert.deepEqual(states, new Set(['good', 'sealed']))
    },
    { seconds: 240 },
  )
  // One that is taken by hand with the other passphrase is whole without that archive.
  const byHand = await runSvc(['backup', '--data-dir', dataDir, '--to', to], passphrase)
  assert.deepEqual([byHand.code, byHand.err], [0, ''])
  await sealedAnew.stop()
  rmSync(dataDir, { recursive: true })
  const copy = await restoreTo('gone')
  assert.deepEqual(await query(copy.server, 'select id from public.notes where id = 21'), [[21]])
  await copy.server.stop()
})
