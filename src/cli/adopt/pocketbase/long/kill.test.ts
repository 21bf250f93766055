import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { hashSync } from '@node-rs/bcrypt'
import { atEnd } from '../../../../../test/kit/at-end.ts'
import { eventually, startServer, storagePath } from '../../../../../test/kit/kit.ts'
import { dataFolder } from '../../../../../test/kit/pocketbase.ts'
import { svc } from '../../../../../test/kit/programs.ts'

const USERS = 400
const ROWS = 20_000
const FILES = 300
const home = mkdtempSync(join(tmpdir(), 'svc-adopt-kill-'))
const password = hashSync('old password', 4)
const folder = dataFolder(
  [
    {
      id: '_pb_users_auth_',
      name: 'users',
      type: 'auth',
      fields: [{ name: 'name', type: 'text' }],
      rules: { list: '', view: '' },
      rows: Array.from({ length: USERS }, (_, at) => ({
        id: `u${at}`,
        email: `u${at}@x.test`,
        verified: 1,
        tokenKey: `t${at}`,
        password,
        name: `n${at}`,
      })),
    },
    {
      id: 'docs0',
      name: 'docs',
      fields: [
        { name: 'title', type: 'text' },
        { name: 'owner', type: 'relation', collectionId: '_pb_users_auth_', maxSelect: 1 },
        { name: 'file', type: 'file', maxSelect: 1 },
      ],
      rules: { list: '', view: '' },
      indexes: ['CREATE INDEX `idx_title` ON `docs` (`title`)'],
      rows: Array.from({ length: ROWS }, (_, at) => ({
        id: `d${at}`,
        title: `title ${at}`,
        owner: `u${at % USERS}`,
        file: at < FILES ? 'a.txt' : '',
      })),
    },
  ],
  { files: Object.fromEntries(Array.from({ length: FILES }, (_, at) => [`docs0/d${at}/a.txt`, `file ${at}`])) },
)
atEnd(() => {
  for (const one of [home, folder]) rmSync(one, { recursive: true, force: true })
})

test('killed at random moments and run again: every row, user and file is there once', async () => {
  const api = await startServer()
  const env = {
    PATH: process.env['PATH'],
    SVC_DATA_DIR: join(home, 'data'),
    SVC_DATABASE_URL: api.databaseUrl,
    SVC_STORAGE_LOCAL_PATH: storagePath,
    SVC_STORAGE_DISK_RESERVE: '0',
  }
  const start = () =>
    spawn(process.execPath, [...svc, 'adopt', 'pocketbase', folder, '--apply', '--json'], { cwd: home, env })
  const broughtBy = async (): Promise<number> => Number((await api.sql('select count(*) from svc.adopted'))[0].count)
  for (let round = 0; round < 12; round++) {
    const child = start()
    const closed = once(child, 'close')
    // Somewhere in the part that is left: schema, users, rows or files.
    const goal = (await broughtBy()) + Math.floor(Math.random() * 3_000)
    await eventually(async () => assert.ok(child.exitCode !== null || (await broughtBy()) >= goal), { seconds: 120 })
    child.kill('SIGKILL')
    await closed
  }
  const plan = await eventually(
    async () => {
      const child = start()
      let [out, err] = ['', '']
      child.stdout.on('data', (text) => (out += text))
      child.stderr.on('data', (text) => (err += text))
      await once(child, 'close')
      // The session of a killed run may hold its lock for a moment.
      assert.equal(err, '')
      return JSON.parse(out)
    },
    { seconds: 120 },
  )
  assert.equal(plan.apply, true)
  const [counts] =
    await api.sql(`select (select count(*) from svc.users) as users, (select count(*) from users) as profiles,
    (select count(*) from docs) as docs, (select count(*) from svc.objects where bucket = 'docs') as files,
    (select count(*) from docs d join users u on u.id = d.owner) as owned, to_regclass('public.pb_docs0_idx_title') is not null as indexed`)
  assert.deepEqual(
    { ...counts },
    {
      users: String(USERS),
      profiles: String(USERS),
      docs: String(ROWS),
      files: String(FILES),
      owned: String(ROWS),
      indexed: 't',
    },
  )
  for (const at of [0, 150, FILES - 1])
    assert.equal((await api.call(`GET /api/storage/docs/d${at}/a.txt`)).text, `file ${at}`)
  assert.equal(
    (await api.call('POST /api/auth/login', { json: { email: 'u399@x.test', password: 'old password' } })).status,
    200,
  )
})
