import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { svc as program } from '../../../test/kit/programs.ts'

const api = await startServer()
const home = mkdtempSync(join(tmpdir(), 'svc-cli-files-'))
after(() => rmSync(home, { recursive: true, force: true }))
const token = await api.adminToken()

type Ran = { code: number; out: string; err: string }

const svc = (...args: string[]): Promise<Ran> =>
  new Promise((resolve) => {
    const all = [...program, ...args, '--url', api.url, '--admin-token', token]
    const env = { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'], SVC_DATA_DIR: join(home, 'data') }
    const child = execFile(process.execPath, all, { cwd: home, env }, (_error, out, err) =>
      resolve({ code: child.exitCode ?? -1, out, err }),
    )
  })

const pageOf = (host: string, path: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(api.url)
    request({ hostname, port, path, headers: { host } }, (answer) => {
      let text = ''
      answer.on('data', (chunk) => (text += chunk)).on('end', () => resolve(text))
    })
      .on('error', reject)
      .end()
  })

test('a file is put, listed and got', async () => {
  writeFileSync(join(home, 'ü 1.txt'), 'grüße')
  const put = await svc('storage', 'put', 'ü 1.txt', 'pub/deep/ü 1.txt')
  assert.deepEqual([put.code, put.err], [0, ''])
  assert.match(put.out, /\/api\/storage\/pub\/deep\/%C3%BC%201\.txt \(7 bytes\)\n$/)
  const listed = await svc('storage', 'ls', 'pub', 'deep/', '--json')
  assert.equal(JSON.parse(listed.out).items[0].name, 'deep/ü 1.txt')
  assert.match((await svc('storage', 'ls', 'pub')).out, /deep\/ü 1\.txt {2}7 /)
  assert.equal((await svc('storage', 'get', 'pub/deep/ü 1.txt', 'copy.txt')).code, 0)
  assert.equal(readFileSync(join(home, 'copy.txt'), 'utf8'), 'grüße')
  assert.equal((await svc('storage', 'get', 'pub/deep/ü 1.txt', '-')).out, 'grüße')
  assert.deepEqual(await svc('storage', 'get', 'pub/none'), { code: 1, out: '', err: 'file not found\n' })
  assert.equal((await svc('storage', 'put')).code, 2)
  const missing = await svc('storage', 'put', 'none.txt', 'pub')
  assert.deepEqual(missing, { code: 1, out: '', err: 'none.txt cannot be read: no such file or directory\n' })
  const folder = await svc('storage', 'put', '.', 'pub/x')
  assert.deepEqual(folder, { code: 1, out: '', err: '. cannot be read: it is a folder\n' })
})

test('what a folder does not show is not published', async () => {
  await api.call('POST /api/admin/sites', { as: 'admin', json: { name: 'Shown', slug: 'shown' } })
  const folder = join(home, 'shown')
  for (const name of ['.well-known', '.git', 'a']) mkdirSync(join(folder, name), { recursive: true })
  const secret = join(home, 'secret.txt')
  for (const file of ['index.html', 'a/b.txt', '.env', 'a/.env.local', '.git/config', '.well-known/acme']) {
    writeFileSync(join(folder, file), file)
  }
  writeFileSync(secret, 'secret')
  symlinkSync(secret, join(folder, 'out.txt'))
  symlinkSync(home, join(folder, 'away'))
  symlinkSync('a/b.txt', join(folder, 'in.txt'))
  symlinkSync('nowhere', join(folder, 'broken.txt'))
  symlinkSync('.env', join(folder, 'env.txt'))
  const { code, out, err } = await svc('sites', 'deploy', 'shown', '--site', 'shown')
  assert.deepEqual([code, out], [0, 'shown is live: 4 files, 40 bytes, 4 uploaded\n'], err)
  assert.deepEqual(err.split('\n'), [
    'left out: .env (hidden)',
    'left out: .git (hidden)',
    'left out: a/.env.local (hidden)',
    'left out: away (a link to outside of the folder)',
    'left out: broken.txt (a broken link)',
    'left out: env.txt (a link to a hidden file)',
    'left out: out.txt (a link to outside of the folder)',
    '',
  ])
  assert.equal(await pageOf('shown.localhost', '/.well-known/acme'), '.well-known/acme')
  assert.equal(await pageOf('shown.localhost', '/in.txt'), 'a/b.txt')
})

test('a folder goes live, only what changed travels, and a failure leaves what was live', async () => {
  await api.call('POST /api/admin/sites', { as: 'admin', json: { name: 'Demo', slug: 'demo' } })
  const folder = join(home, 'dist')
  mkdirSync(join(folder, 'assets'), { recursive: true })
  writeFileSync(join(folder, 'assets', 'app.3f9ab21c.js'), 'one')
  const empty = await svc('sites', 'deploy', 'dist', '--site', 'demo')
  assert.deepEqual(empty, { code: 1, out: '', err: 'dist has no index.html\n' })
  const { body: before } = await api.call('GET /api/admin/sites', { as: 'admin' })
  assert.equal(before.sites[0].liveDeployId, undefined)

  writeFileSync(join(folder, 'index.html'), 'first')
  const first = await svc('sites', 'deploy', 'dist', '--site', 'demo')
  assert.deepEqual(first, { code: 0, out: 'demo is live: 2 files, 8 bytes, 2 uploaded\n', err: '' })
  assert.equal(await pageOf('demo.localhost', '/assets/app.3f9ab21c.js'), 'one')

  writeFileSync(join(folder, 'index.html'), 'second')
  const second = await svc('sites', 'deploy', 'dist', '--site', before.sites[0].id)
  assert.deepEqual(second, { code: 0, out: 'demo is live: 2 files, 9 bytes, 1 uploaded\n', err: '' })
  assert.equal(await pageOf('demo.localhost', '/'), 'second')

  writeFileSync(join(folder, 'bad\nname.txt'), 'x')
  const failed = await svc('sites', 'deploy', 'dist', '--site', 'demo')
  assert.deepEqual(failed, { code: 1, out: '', err: 'invalid file path\n' })
  assert.equal(await pageOf('demo.localhost', '/'), 'second')
  const { body } = await api.call(`GET /api/admin/sites/${before.sites[0].id}/deploys`, { as: 'admin' })
  assert.deepEqual([body.deploys[0].status, body.deploys[0].errorMessage], ['failed', 'invalid file path'])
  assert.equal((await svc('sites', 'deploy', 'dist', '--site', 'none')).err, 'site not found: none\n')
})

test('a table goes out to a file and comes in again, all of it or nothing', async () => {
  await api.sql(`create table lions (id int primary key, name text, mane boolean);
    insert into lions values (1, 'Aslan', true), (2, 'Nala, "the quick"', false)`)
  assert.deepEqual(await svc('export', 'lions', 'lions.csv'), { code: 0, out: 'wrote lions.csv\n', err: '' })
  const text = readFileSync(join(home, 'lions.csv'), 'utf8')
  assert.equal(
    (await svc('export', 'lions', '--filter', 'id=1', '--format', 'ndjson')).out,
    '{"id":1,"name":"Aslan","mane":true}\n',
  )
  await api.sql('truncate lions')
  const tried = await svc('import', 'lions', 'lions.csv', '--dry-run')
  assert.deepEqual(tried, { code: 0, out: '2 created, 0 updated, 0 skipped\n', err: '' })
  assert.deepEqual(await api.sql('select * from lions'), [])
  assert.equal((await svc('import', 'lions', 'lions.csv')).out, '2 created, 0 updated, 0 skipped\n')
  assert.equal(
    (await svc('import', 'lions', 'lions.csv', '--on-conflict', 'id')).out,
    '0 created, 2 updated, 0 skipped\n',
  )
  assert.equal((await svc('export', 'lions')).out, text)
  const ids = async (...sort: string[]) =>
    (await svc('export', 'lions', '--fields', 'id', '--format', 'csv', ...sort)).out.trim().split(/\s+/).slice(1)
  assert.deepEqual(
    [await ids('--sort', '-id'), await ids('--sort=-id')],
    [
      ['2', '1'],
      ['2', '1'],
    ],
  )
  writeFileSync(join(home, 'bad.csv'), 'id,name\n3,Simba\nx,Scar\n')
  const failed = await svc('import', 'lions', 'bad.csv')
  assert.deepEqual([failed.code, failed.out], [1, ''])
  assert.match(failed.err, /^import failed: line 3: invalid integer value: .*\n$/)
  assert.equal((await api.sql('select * from lions')).length, 2)
  assert.equal((await svc('import', 'lions', 'none.csv')).err, 'none.csv cannot be read: no such file or directory\n')
  assert.equal((await svc('import', 'lions', '.')).err, '. cannot be read: it is a folder\n')
  assert.equal((await svc('export', 'lions', '--format', 'xml')).code, 2)
})
