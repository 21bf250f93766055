import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startS3 } from '../../../../test/fakes/s3-server.ts'
import { atEnd } from '../../../../test/kit/at-end.ts'
import { query, runSvc, spawnEmbedded, startEmbeddedServer, testFolder } from '../../../../test/kit/backups.ts'
import { eventually } from '../../../../test/kit/kit.ts'
import { svc as program } from '../../../../test/kit/programs.ts'
import { sleep } from '../../../core/clock.ts'

const passphrase = { 'backup.passphrase': 'only for tests' }
const fill = (rows: number) => `create table if not exists public.notes (id int primary key, body text);
  insert into public.notes select n, repeat(md5(n::text), 20) from generate_series(1, ${rows}) n on conflict do nothing`

type Listed = { id: string; state: string }
const listed = async (dataDir: string, config: Record<string, unknown>): Promise<Listed[]> =>
  JSON.parse((await runSvc(['backup', 'list', '--json'], { ...config, data_dir: dataDir })).out).items

/** Files below a folder, which need not be there. */
const filesOf = (folder: string): string[] =>
  existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : []

/** `svc …` in a process that can be killed. */
function spawnSvc(args: readonly string[], config: Record<string, unknown>) {
  const env: NodeJS.ProcessEnv = { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'] }
  for (const [key, value] of Object.entries(config))
    env[`SVC_${key.replaceAll('.', '_').toUpperCase()}`] = String(value)
  const child = spawn(process.execPath, [...program, ...args], { cwd: tmpdir(), env, stdio: 'ignore' })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  return {
    ended,
    hasEnded: () => child.exitCode !== null,
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

/** Runs `svc …` and kills it after a while. */
async function runAndKill(args: readonly string[], config: Record<string, unknown>, afterMs: number): Promise<void> {
  const child = spawnSvc(args, config)
  await Promise.race([sleep(afterMs), child.ended])
  await child.kill()
}

test('killed at random: what is called good holds, the next one works, writes go on', async () => {
  const home = testFolder()
  const [dataDir, to] = [join(home, 'data'), join(home, 'target')]
  const config = { ...passphrase, 'backup.to': to, data_dir: dataDir }
  const server = await spawnEmbedded(dataDir, passphrase)
  await query(server, fill(50_000))
  let id = 1_000_000
  for (let round = 0; round < 6; round++) {
    await runAndKill(['backup'], config, 300 + Math.random() * 2500)
    const { status } = await server.call('POST /api/collections/notes', { as: 'admin', json: { id: id++, body: 'x' } })
    assert.equal(status, 201)
  }
  const left = (await listed(dataDir, config)).filter(({ state }) => state === 'running')
  assert.deepEqual(left, [], 'none runs whose process is gone')
  const whole = await runSvc(['backup', '--json'], config)
  assert.equal(whole.code, 0, whole.err)
  const good = (await listed(dataDir, config)).filter(({ state }) => state === 'good')
  assert.ok(good.length >= 1)
  for (const one of good) {
    const verified = await runSvc(['backup', 'verify', one.id], config)
    assert.equal(verified.code, 0, verified.out + verified.err)
  }
  await server.kill('SIGTERM')

  // Killed at once, after a while, and as late as its last steps.
  for (const afterMs of [0, 100, 400, 900]) {
    const copy = join(home, `copy-${afterMs}`)
    const restore = spawnSvc(['restore', '--from', to, '--data-dir', copy], config)
    await eventually(() => assert.ok(existsSync(join(copy, 'restoring')) || restore.hasEnded()), { seconds: 60 })
    await sleep(afterMs)
    await restore.kill()
    if (!existsSync(join(copy, 'restoring'))) {
      assert.ok(afterMs > 0, 'it was killed while it restored')
      continue
    }
    const { code, err } = await runSvc(['start', '--data-dir', copy, '--port', '0'])
    assert.equal(code, 1)
    assert.match(err, /is a restore that was not finished/)
  }
})

test('the server killed during its own backup: none is called good that is not, and the next start takes one', async () => {
  const home = testFolder()
  const [dataDir, to] = [join(home, 'data'), join(home, 'target')]
  const config = { ...passphrase, 'backup.to': to, data_dir: dataDir }
  let server = await spawnEmbedded(dataDir, { ...passphrase, 'backup.to': to })
  await query(server, fill(50_000))
  for (let round = 0; round < 2; round++) {
    const { status } = await server.call('POST /api/admin/backups', { as: 'admin', json: {} })
    // The job of a server that was killed is taken up again.
    assert.ok(status === 202 || (status === 409 && round > 0), String(status))
    await eventually(() => assert.ok(filesOf(join(to, 'tmp')).length > 0), { seconds: 60 })
    await server.killAll()
    if (round === 0) {
      const states = (await listed(dataDir, config)).map(({ state }) => state)
      assert.ok(!states.includes('good'), states.join())
    }
    rmSync(join(to, 'tmp'), { recursive: true, force: true })
    server = await spawnEmbedded(dataDir, { ...passphrase, 'backup.to': to })
  }
  await eventually(
    async () => {
      const whole = await runSvc(['backup'], config)
      assert.equal(whole.code, 0, whole.err)
    },
    { seconds: 120 },
  )
  for (const { id, state } of await listed(dataDir, config)) {
    if (state === 'good') assert.equal((await runSvc(['backup', 'verify', id], config)).code, 0, id)
  }
  await server.kill('SIGTERM')
})

test('PostgreSQL killed during a backup: it has failed, and the next one is good', async () => {
  const home = testFolder()
  const [dataDir, to] = [join(home, 'data'), join(home, 'target')]
  const config = { ...passphrase, 'backup.to': to, data_dir: dataDir }
  const server = await spawnEmbedded(dataDir, passphrase)
  await query(server, fill(50_000))
  const running = runSvc(['backup'], config)
  await eventually(() => assert.ok(filesOf(join(to, 'tmp')).length > 0), { seconds: 60 })
  await server.killPostgres()
  const first = await running
  assert.equal(first.code, 1, first.out)
  assert.deepEqual(
    (await listed(dataDir, config)).map(({ state }) => state),
    ['failed'],
  )
  const next = await eventually(
    async () => {
      const ran = await runSvc(['backup'], config)
      assert.equal(ran.code, 0, ran.err)
      return ran
    },
    { seconds: 120 },
  )
  assert.match(next.out, /is good/)
  const { status } = await server.call('POST /api/collections/notes', {
    as: 'admin',
    json: { id: 1_000_000, body: 'x' },
  })
  assert.equal(status, 201)
  await server.kill('SIGTERM')
})

test('S3 that answers 500, slowly or not at all: no backup is called good that is not', async () => {
  const s3 = await startS3()
  const [host = '', port = ''] = String(s3.store.endpoint).split(':')
  let fault: 'none' | 'some' | 'all' | 'slow' = 'none'
  const proxy = createServer((from, to) => {
    const fails = fault === 'all' || (fault === 'some' && Math.random() < 0.2)
    if (fails) {
      from.resume()
      to.writeHead(500).end()
      return
    }
    const pass = () => {
      const onward = request({ host, port, method: from.method, path: from.url, headers: from.headers }, (answer) => {
        to.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(to)
      })
      onward.on('error', () => to.destroy())
      from.pipe(onward)
    }
    if (fault === 'slow') setTimeout(pass, 300)
    else pass()
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  atEnd(() => void proxy.close())
  const address = proxy.address()
  const endpoint = `127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
  const home = testFolder()
  const dataDir = join(home, 'data')
  const config = {
    ...s3.config,
    'storage.backend': 'local',
    // s3rver checks the signature against its own address.
    'backup.s3_endpoint': endpoint,
    'backup.s3_use_ssl': false,
    ...passphrase,
    'backup.to': `s3://${s3.store.bucket}/x`,
    data_dir: dataDir,
  }
  const server = await startEmbeddedServer(dataDir)
  await query(server, fill(20_000))
  for (const kind of ['all', 'some', 'slow', 'none'] as const) {
    fault = kind
    const { code } = await runSvc(['backup'], config)
    fault = 'none'
    const last = (await listed(dataDir, config)).at(-1)
    if (kind === 'all') assert.notEqual(code, 0)
    else assert.equal(last?.state === 'good', code === 0, kind)
    if (kind === 'none' || kind === 'slow') assert.equal(code, 0, kind)
    if (code === 0 && last) assert.equal((await runSvc(['backup', 'verify', last.id], config)).code, 0, kind)
  }
})
