import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { chownSync, lchownSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import pg from 'pg'
import { eventually } from '../../../../test/kit/eventually.ts'
import { findBinaries } from './binaries.ts'
import { startEmbedded } from './embedded.ts'
import { readPostmaster } from './postmaster.ts'

const skip = process.getuid?.() !== 0 && 'only root has accounts to give'
const nobody = { uid: 65_534, gid: 65_534 }
const dataDir = mkdtempSync(join(tmpdir(), 'svc-account-'))
const cluster = join(dataDir, 'postgres')
after(() => rmSync(dataDir, { recursive: true, force: true }))

const start = () => startEmbedded({ dataDir, log: () => {} })

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query('create table if not exists kept (n int); select 1 as one')
  await client.end()
  return rows !== null
}

test('as root, PostgreSQL has an account of its own, and no other account reaches it', { skip }, async () => {
  const embedded = await start()
  const { uid } = statSync(cluster)
  assert.ok(uid > 60_000 && uid !== nobody.uid, `uid ${uid}`)
  assert.match(readFileSync(`/proc/${embedded.pid}/status`, 'utf8'), new RegExp(`^Uid:\\s+${uid}\\s+${uid}\\s`, 'm'))
  assert.ok(!readFileSync('/etc/passwd', 'utf8').includes(`:${uid}:`))
  for (const path of [`/proc/${embedded.pid}/fd`, embedded.socketDir, cluster]) {
    assert.notEqual(spawnSync('ls', [path], nobody).status, 0, `nobody reads ${path}`)
  }
  assert.ok(await answers(embedded.url))
  await embedded.stop()
  const again = await start()
  assert.equal(statSync(cluster).uid, uid)
  await again.stop()
})

function giveToNobody(): void {
  for (const name of ['.', ...readdirSync(cluster, { recursive: true, encoding: 'utf8' })]) {
    lchownSync(join(cluster, name), nobody.uid, nobody.gid)
  }
}

test('a cluster of nobody is taken over while it runs, and after a start that was cut off', { skip }, async () => {
  giveToNobody()
  const { dir } = findBinaries(undefined, nobody)
  const sockets = mkdtempSync(join(tmpdir(), 'svc-nobody-'))
  after(() => rmSync(sockets, { recursive: true, force: true }))
  chownSync(sockets, nobody.uid, nobody.gid)
  const settings = ['-c', 'listen_addresses=', '-c', `unix_socket_directories=${sockets}`]
  const running = spawn(join(dir, 'postgres'), ['-D', '/proc/self/fd/3', ...settings], {
    ...nobody,
    cwd: '/',
    env: { LC_ALL: 'C' },
    stdio: ['ignore', 'ignore', 'ignore', openSync(cluster, 'r')],
  })
  const ended = new Promise((resolve) => running.once('exit', resolve))
  await eventually(() => assert.equal(readPostmaster(cluster)?.status, 'ready'))
  const embedded = await start()
  await ended
  assert.equal(embedded.adopted, false)
  assert.ok(await answers(embedded.url))
  await embedded.stop()

  const { uid } = statSync(cluster)
  giveToNobody()
  lchownSync(join(cluster, 'base'), uid, uid)
  lchownSync(cluster, uid, uid)
  const again = await start()
  assert.deepEqual([statSync(cluster).uid, statSync(join(cluster, 'PG_VERSION')).uid], [uid, uid])
  assert.ok(await answers(again.url))
  await again.stop()
})
