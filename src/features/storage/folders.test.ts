import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../../../test/kit/at-end.ts'
import { startServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

const api = await startServer()
const [ada, bob] = [await api.signUp('ada@example.test'), await api.signUp('bob@example.test')]
const bucketOf = (json: object) => api.call('POST /api/admin/storage/buckets', { as: 'admin', json })
await bucketOf({ name: 'vault', access: 'private' })
await bucketOf({ name: 'ruled', access: 'policies' })
await api.sql(`create policy own on svc.objects using (owner = svc.uid())`)
const NAMES = [
  'a.txt',
  'docs/b.txt',
  'docs/c.txt',
  'docs/deep/d.txt',
  'docs/été/e.txt',
  'docs0.txt',
  'photos/f.txt',
  'z.txt',
]
for (const bucket of ['open', 'vault', 'ruled']) {
  for (const name of NAMES)
    await upload(api, `/api/storage/${bucket}`, { as: ada.token, name, content: `${bucket} ${name}` })
  await upload(api, `/api/storage/${bucket}`, { as: bob.token, name: 'bobs/x.txt' })
}
const list = async (bucket: string, query: string, as = ada.token) => {
  const { status, body, text } = await api.call(`GET /api/storage/${bucket}?delimiter=/&${query}`, { as })
  assert.equal(status, 200, text)
  return [body.items.map(({ name }: { name: string }) => name), body.folders, body.totalItems]
}

test('with a delimiter a list has the files of a folder and its folders, of what the caller may see', async () => {
  for (const bucket of ['vault', 'ruled']) {
    assert.deepEqual(await list(bucket, ''), [['a.txt', 'docs0.txt', 'z.txt'], ['docs/', 'photos/'], 8])
  }
  assert.deepEqual(await list('open', ''), [['a.txt', 'docs0.txt', 'z.txt'], ['bobs/', 'docs/', 'photos/'], 9])
  for (const bucket of ['open', 'vault', 'ruled']) {
    assert.deepEqual(await list(bucket, 'prefix=docs/'), [['docs/b.txt', 'docs/c.txt'], ['docs/deep/', 'docs/été/'], 4])
    assert.deepEqual(await list(bucket, 'prefix=docs'), [['docs0.txt'], ['docs/'], 5])
    assert.deepEqual(await list(bucket, `prefix=docs/${encodeURIComponent('été')}/`), [['docs/été/e.txt'], [], 1])
    assert.deepEqual(await list(bucket, 'prefix=none/'), [[], [], 0])
  }
  assert.deepEqual(await list('vault', '', bob.token), [[], ['bobs/'], 1])
  assert.equal((await api.call('GET /api/storage/open?delimiter=x')).status, 400)
  assert.equal((await api.call('GET /api/storage/vault?delimiter=/')).status, 401)
})

test('pages of folders go on behind a name or a folder', async () => {
  assert.deepEqual(await list('vault', 'limit=2'), [['a.txt'], ['docs/'], 8])
  assert.deepEqual(await list('vault', 'limit=2&after=docs/'), [['docs0.txt'], ['photos/'], 8])
  assert.deepEqual(await list('vault', 'limit=2&after=photos/'), [['z.txt'], [], 8])
  assert.deepEqual(await list('vault', 'limit=2&offset=2'), [['docs0.txt'], ['photos/'], 8])
  assert.deepEqual(await list('vault', 'prefix=docs/&after=docs/b.txt&limit=1'), [['docs/c.txt'], [], 4])
})

test('a prefix comes as a zip, of what the caller may read', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-zip-'))
  atEnd(() => rmSync(folder, { recursive: true, force: true }))
  for (const bucket of ['open', 'vault', 'ruled']) {
    const answer = await fetch(`${api.url}/api/storage/${bucket}?prefix=docs&format=zip`, {
      headers: { authorization: `Bearer ${ada.token}` },
    })
    assert.equal(answer.status, 200)
    assert.equal(answer.headers.get('content-type'), 'application/zip')
    assert.equal(answer.headers.get('content-disposition'), 'attachment; filename="docs.zip"')
    const file = join(folder, `${bucket}.zip`)
    writeFileSync(file, Buffer.from(await answer.arrayBuffer()))
    const into = join(folder, bucket)
    const python =
      'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; z.extractall(sys.argv[2])'
    execFileSync('python3', ['-c', python, file, into])
    for (const name of ['docs/b.txt', 'docs/été/e.txt', 'docs0.txt']) {
      assert.equal(readFileSync(join(into, name), 'utf8'), `${bucket} ${name}`)
    }
  }
  for (const [query, expected] of [
    ['vault?prefix=docs&format=zip', 401],
    ['open?format=tar', 400],
  ] as const) {
    assert.equal((await api.call(`GET /api/storage/${query}`)).status, expected)
  }
  const empty = await fetch(`${api.url}/api/storage/ruled?format=zip`)
  assert.equal((await empty.arrayBuffer()).byteLength, 22)
})

test('buckets that hold files without settings of their own are listed by name, those of the server are not', async () => {
  const { body } = await api.call('GET /api/admin/storage/buckets', { as: 'admin' })
  assert.deepEqual(
    body.items.map(({ name }: { name: string }) => name),
    ['ruled', 'vault'],
  )
  assert.deepEqual(body.without_settings, ['open'])
  await api.sql(`update svc.objects set bucket = '_svc_sites' where bucket = 'open' and name = 'z.txt'`)
  assert.deepEqual((await api.call('GET /api/admin/storage/buckets', { as: 'admin' })).body.without_settings, ['open'])
})
