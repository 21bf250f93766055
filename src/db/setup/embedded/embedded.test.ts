import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { eventually } from '../../../../test/kit/eventually.ts'
import { programOf } from '../../../../test/kit/programs.ts'
import { sleep } from '../../../core/clock.ts'
import { findBinaries } from './binaries.ts'
import { type Embedded, type EmbeddedOptions, startEmbedded } from './embedded.ts'
import { holderOf } from './lock.ts'
import { readPostmaster } from './postmaster.ts'
import { isAlive } from './process.ts'

const root = mkdtempSync(join(tmpdir(), 'svc-embedded-'))
const template = join(root, 'template')
const running = new Set<Embedded>()
const owners = new Set<ChildProcess>()
const dirs: string[] = []
const isRoot = process.getuid?.() === 0

const start = async (dataDir: string, more: Partial<EmbeddedOptions> = {}): Promise<Embedded> => {
  const embedded = await startEmbedded({ dataDir, log: () => {}, ...more })
  running.add(embedded)
  return embedded
}
const stop = async (embedded: Embedded) => {
  running.delete(embedded)
  await embedded.stop()
}

/** A data directory with a cluster in it, as a restore from a backup would leave it. */
const restored = (name: string): string => {
  const dir = join(root, name)
  cpSync(template, dir, { recursive: true })
  // Node 22 does not copy the modes of folders.
  for (const name of ['', ...readdirSync(dir, { recursive: true, encoding: 'utf8' })])
    if (statSync(join(dir, name)).isDirectory()) chmodSync(join(dir, name), statSync(join(template, name)).mode)
  dirs.push(dir)
  return dir
}

type OwnerState = { url: string; pid: number; adopted: boolean; refused?: string }
/** Another process that holds the data directory. */
async function startOwner(...args: string[]): Promise<{ child: ChildProcess; state: OwnerState }> {
  const program = programOf('test/faults/embedded-owner.ts')
  const child = spawn(process.execPath, [...program, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  owners.add(child)
  let text = ''
  for await (const chunk of child.stdout ?? []) {
    text += String(chunk)
    if (text.includes('\n')) break
  }
  return { child, state: JSON.parse(text) as OwnerState }
}
const kill9 = async (pid: number) => {
  process.kill(pid, 'SIGKILL')
  while (isAlive(pid)) await sleep(5)
}

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(text)).rows as Record<string, unknown>[]
  } finally {
    await client.end()
  }
}

before(async () => {
  const embedded = await start(template)
  await query(embedded.url, 'create table kept (what text)')
  await stop(embedded)
})

after(async () => {
  for (const embedded of running) await embedded.stop()
  for (const owner of owners) owner.kill('SIGKILL')
  for (const dir of dirs) {
    const left = readPostmaster(join(dir, 'postgres'))
    if (left && isAlive(left.pid)) await kill9(left.pid)
  }
  rmSync(root, { recursive: true, force: true, maxRetries: 5 })
})

test('the first start makes a cluster that only its owner can reach, and that keeps its rows', async () => {
  const dataDir = join(root, 'first')
  const embedded = await start(dataDir)
  const [settings] = await query(
    embedded.url,
    `select current_setting('listen_addresses') as tcp, current_setting('fsync') as fsync,
            current_setting('full_page_writes') as pages, current_setting('server_encoding') as encoding`,
  )
  assert.deepEqual(settings, { tcp: '', fsync: 'on', pages: 'on', encoding: 'UTF8' })
  assert.equal(embedded.adopted, false)
  for (const dir of [dataDir, join(dataDir, 'postgres'), embedded.socketDir]) {
    assert.equal(statSync(dir).mode & 0o777, 0o700, dir)
  }
  for (const file of ['svc.pid', 'postgres.log']) assert.equal(statSync(join(dataDir, file)).mode & 0o777, 0o600, file)
  await stop(embedded)
  assert.equal(isAlive(embedded.pid), false)
  assert.equal(holderOf(dataDir), undefined)
})

test('settings reach PostgreSQL, and clients cannot fill its log', async () => {
  const dataDir = restored('settings')
  const embedded = await start(dataDir, { settings: { work_mem: '7MB' } })
  assert.deepEqual(await query(embedded.url, 'show work_mem'), [{ work_mem: '7MB' }])
  await assert.rejects(query(embedded.url, `select 'a secret value'::int`))
  assert.doesNotMatch(readFileSync(join(dataDir, 'postgres.log'), 'utf8'), /a secret value/)
  await stop(embedded)
})

test('a second server on the data directory reports who holds it and where', async () => {
  const dataDir = restored('held')
  const { child } = await startOwner(dataDir)
  await assert.rejects(start(dataDir), (error: Error) => {
    assert.ok(
      error.message.includes(`in use by another server (pid ${child.pid}, http://127.0.0.1:8090)`),
      error.message,
    )
    return true
  })
})

test('after kill -9 of the server the next one takes over its PostgreSQL, data and sessions included', async () => {
  const dataDir = restored('adopted')
  const { child, state } = await startOwner(dataDir)
  await query(state.url, `insert into kept values ('a row')`)
  const client = new pg.Client({ connectionString: state.url })
  await client.connect()
  await kill9(child.pid ?? 0)
  const embedded = await start(dataDir)
  assert.equal(embedded.adopted, true)
  assert.equal(embedded.pid, state.pid)
  assert.equal(embedded.url, state.url)
  assert.deepEqual((await client.query('select * from kept')).rows, [{ what: 'a row' }])
  await client.end()
  await stop(embedded)
  assert.equal(isAlive(state.pid), false)
})

test('committed rows survive kill -9 of both the server and PostgreSQL', async () => {
  const dataDir = restored('both')
  const { child, state } = await startOwner(dataDir)
  await query(state.url, `insert into kept select 'row ' || n from generate_series(1, 1000) n`)
  // A session in the middle of a statement outlives its postmaster; the new one must wait for it.
  const busy = new pg.Client({ connectionString: state.url })
  busy.on('error', () => {})
  await busy.connect()
  const interrupted = busy.query('select pg_sleep(1)').catch(() => {})
  await kill9(child.pid ?? 0)
  await kill9(state.pid)
  const embedded = await start(dataDir)
  assert.equal(embedded.adopted, false)
  assert.deepEqual(await query(embedded.url, 'select count(*)::int as n from kept'), [{ n: 1000 }])
  await interrupted
  await busy.end().catch(() => {})
  await stop(embedded)
})

test('when PostgreSQL alone dies it is started again under the same address', async () => {
  const embedded = await start(restored('restarted'))
  const before = embedded.pid
  await query(embedded.url, `insert into kept values ('before')`)
  await kill9(before)
  assert.deepEqual(await eventually(() => query(embedded.url, 'select what from kept')), [{ what: 'before' }])
  assert.notEqual(embedded.pid, before)
  await stop(embedded)
})

test('of several servers that find a dead holder at once, one starts', async () => {
  const dataDir = restored('race')
  const dead = await startOwner(dataDir)
  await kill9(dead.child.pid ?? 0)
  const all = await Promise.all([1, 2, 3].map(() => startOwner(dataDir)))
  assert.equal(all.filter(({ state }) => state.refused === undefined).length, 1)
  for (const { state } of all) assert.match(state.refused ?? 'in use by', /in use by/)
})

test('pids that now belong to other programs do not lock a server out', async () => {
  const dataDir = restored('recycled')
  writeFileSync(join(dataDir, 'svc.pid'), `${process.ppid}\nan-earlier-boot:1\nhttp://127.0.0.1:1\n`)
  const lines = [process.pid, join(dataDir, 'postgres'), 1, 5432, join(dataDir, 'run'), '', '  1  1', 'ready   ', '']
  writeFileSync(join(dataDir, 'postgres', 'postmaster.pid'), lines.join('\n'))
  const embedded = await start(dataDir)
  assert.equal(embedded.adopted, false)
  assert.deepEqual(await query(embedded.url, 'select count(*)::int as n from kept'), [{ n: 0 }])
  await stop(embedded)
})

test('a damaged svc.pid is no lock', async () => {
  const dataDir = restored('damaged')
  writeFileSync(join(dataDir, 'svc.pid'), '')
  await stop(await start(dataDir))
})

test('remains of an interrupted first start are replaced, but nothing unknown is deleted', async () => {
  const dataDir = join(root, 'half-made')
  mkdirSync(join(dataDir, 'postgres.new-0badcafe'), { recursive: true })
  mkdirSync(join(dataDir, 'postgres', 'base'), { recursive: true })
  writeFileSync(join(dataDir, 'postgres', 'base', 'mine'), 'precious')
  const embedded = await start(dataDir)
  assert.deepEqual(await query(embedded.url, 'select 1 as one'), [{ one: 1 }])
  await stop(embedded)
  const names = readdirSync(dataDir)
  const aside = names.find((name) => name.startsWith('postgres.incomplete-')) ?? ''
  assert.equal(readFileSync(join(dataDir, aside, 'base', 'mine'), 'utf8'), 'precious')
  assert.ok(!names.includes('postgres.new-0badcafe'))
})

test('a cluster of another major version is refused in one sentence, untouched', async () => {
  const dataDir = restored('other-version')
  writeFileSync(join(dataDir, 'postgres', 'PG_VERSION'), '13\n')
  await assert.rejects(start(dataDir), /was made by PostgreSQL 13 and cannot be run by 18/)
  assert.equal(holderOf(dataDir), undefined)
})

test('a bin folder without PostgreSQL is refused in one sentence', async () => {
  await assert.rejects(start(join(root, 'no-bin'), { binDir: root }), /embedded_bin_dir: cannot run .*postgres/)
})

test('a bin folder that only root may enter is refused in one sentence', { skip: !isRoot && 'root only' }, async () => {
  const binDir = join(root, 'closed')
  mkdirSync(binDir, { mode: 0o700 })
  symlinkSync(join(findBinaries(undefined, undefined).dir, 'postgres'), join(binDir, 'postgres'))
  await assert.rejects(
    start(join(root, 'closed-bin'), { binDir }),
    /does not run as root, and other accounts cannot enter/,
  )
})

test('a data directory with a path too long for a socket works', async () => {
  const embedded = await start(restored('long-'.repeat(20)))
  assert.ok(Buffer.byteLength(embedded.socketDir) < 90)
  assert.equal(statSync(embedded.socketDir).mode & 0o777, 0o700)
  assert.deepEqual(await query(embedded.url, 'select 1 as one'), [{ one: 1 }])
  await stop(embedded)
})

test('an ordinary user runs it as himself, and root later leaves it his', async () => {
  const daemon = 1
  const uid = isRoot ? daemon : (process.getuid?.() ?? 0)
  const dataDir = join(root, 'ordinary')
  mkdirSync(dataDir)
  dirs.push(dataDir)
  // mkdtemp made the folder above 0700.
  if (isRoot) for (const dir of [root, dataDir]) chownSync(dir, uid, uid)
  const { dir: binDir } = findBinaries(undefined, isRoot ? { uid, gid: uid } : undefined)
  const { child, state } = await startOwner(dataDir, binDir, ...(isRoot ? [String(uid)] : []))
  assert.equal(state.refused, undefined)
  assert.equal(statSync(join(dataDir, 'postgres')).uid, uid)
  await kill9(child.pid ?? 0)
  const embedded = await start(dataDir)
  assert.equal(embedded.adopted, true)
  await stop(embedded)
  await stop(await start(dataDir))
  assert.equal(statSync(join(dataDir, 'postgres')).uid, uid)
})
