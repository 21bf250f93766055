import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { hashSync } from '@node-rs/bcrypt'
import { atEnd } from '../../../../test/kit/at-end.ts'
import { eventually, startServer } from '../../../../test/kit/kit.ts'
import { svc } from '../../../../test/kit/programs.ts'

const folder = mkdtempSync(join(tmpdir(), 'svc-million-'))
atEnd(() => rmSync(folder, { recursive: true, force: true }))
const hash = hashSync('old password', 4)

async function fileOf(name: string, count: number): Promise<string> {
  const path = join(folder, name)
  const out = createWriteStream(path)
  out.write('{"users":[')
  for (let at = 0; at < count; at++) {
    const user = { id: `u${at}`, email: `user${at % (count - 3)}@x.test`, email_verified: true, password_hash: hash }
    if (!out.write(`${at === 0 ? '' : ','}${JSON.stringify(user)}\n`)) await once(out, 'drain')
  }
  out.end(']}')
  await once(out, 'close')
  return path
}

type Ran = { child: ChildProcess; ended: Promise<{ code: number | null; out: string; err: string; peakMiB: number }> }

function run(databaseUrl: string, file: string, ...more: string[]): Ran {
  const env = { PATH: process.env['PATH'], SVC_DATA_DIR: join(folder, 'data'), SVC_DATABASE_URL: databaseUrl }
  const child = spawn(process.execPath, [...svc, 'users', 'import', file, '--format', 'generic', '--json', ...more], {
    cwd: folder,
    env,
  })
  let [out, err, peakMiB] = ['', '', 0]
  child.stdout.on('data', (text) => (out += text))
  child.stderr.on('data', (text) => (err += text))
  const watch = setInterval(() => {
    try {
      const kib = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]
      peakMiB = Math.max(peakMiB, Number(kib ?? 0) / 1024)
    } catch {
      // It has ended.
    }
  }, 200)
  const ended = once(child, 'close').then(([code]) => {
    clearInterval(watch)
    return { code: code as number | null, out, err, peakMiB }
  })
  return { child, ended }
}

test('a million users arrive in bounded memory, duplicates are listed, and a second run changes nothing', async () => {
  const api = await startServer()
  const file = await fileOf('million.json', 1_000_000)
  const { code, out, err, peakMiB } = await run(api.databaseUrl, file, '--apply').ended
  assert.deepEqual([code, err], [0, ''])
  const { users, done, notes } = JSON.parse(out)
  assert.deepEqual([users.total, done], [999_997, { users: 999_997, joined: 0, before: 0 }])
  assert.equal(notes.filter(({ why }: { why: string }) => why.includes('with the same address')).length, 3)
  assert.ok(peakMiB < 400, `${peakMiB} MiB`)
  const again = await run(api.databaseUrl, file, '--apply').ended
  assert.deepEqual(JSON.parse(again.out).done, { users: 0, joined: 0, before: 999_997 })
})

test('killed at random moments and run again: everybody is there once', async () => {
  const api = await startServer()
  const file = await fileOf('killed.json', 60_000)
  const countOf = async (): Promise<number> => Number((await api.sql('select count(*) from svc.users'))[0].count)
  for (let round = 1; round <= 5; round++) {
    const { child, ended } = run(api.databaseUrl, file, '--apply')
    const goal = (await countOf()) + 1 + Math.floor(Math.random() * 5_000)
    await eventually(async () => assert.ok((await countOf()) >= goal || child.exitCode !== null), { seconds: 120 })
    child.kill('SIGKILL')
    await ended
    const [{ users, known }] = await api.sql(
      `select (select count(*) from svc.users) as users, (select count(*) from svc.adopted) as known`,
    )
    assert.equal(users, known)
  }
  const last = await eventually(
    async () => {
      const ran = await run(api.databaseUrl, file, '--apply').ended
      // The session of a killed run may hold its lock for a moment.
      assert.equal(ran.err, '')
      return ran
    },
    { seconds: 60 },
  )
  assert.equal(last.code, 0)
  assert.equal(await countOf(), 59_997)
  assert.equal(
    (await api.call('POST /api/auth/login', { json: { email: 'user59996@x.test', password: 'old password' } })).status,
    200,
  )
})
