import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { startS3 } from '../../../../test/fakes/s3-server.ts'
import { loadConfig } from '../../../config/config.ts'
import { openFileSource } from './file-source.ts'

const { store: s3 } = await startS3()
const { config } = loadConfig({
  overrides: {
    'storage.s3_endpoint': s3.endpoint,
    'storage.s3_region': s3.region,
    'storage.s3_access_key': s3.accessKey,
    'storage.s3_secret_key': s3.secretKey,
    'storage.s3_use_ssl': false,
  },
})
const home = mkdtempSync(join(tmpdir(), 'svc-places-'))
after(() => rmSync(home, { recursive: true, force: true }))

const FILES = { 'docs/plain.txt': 'plain', 'tenant/docs/deep/a.txt/v1': 'of a tenant', 'docs/b.txt/v2': 'by version' }
const client = new S3Client({
  endpoint: `http://${s3.endpoint}`,
  region: s3.region,
  forcePathStyle: true,
  credentials: { accessKeyId: s3.accessKey, secretAccessKey: s3.secretKey },
})
for (const [name, body] of Object.entries(FILES)) {
  mkdirSync(join(home, name, '..'), { recursive: true })
  writeFileSync(join(home, name), body)
  await client.send(new PutObjectCommand({ Bucket: s3.bucket, Key: `old/${name}`, Body: body }))
}

test('files are found in a folder and in S3, by either layout', async () => {
  for (const place of [home, `s3://${s3.bucket}/old/`]) {
    const files = await openFileSource(place, config)
    const read = async (name: string, version: string | null): Promise<string> => {
      const found = await files.find('docs', name, version)
      assert.ok(found && typeof found !== 'string', `${place} ${name}`)
      const body = await text(await found.open())
      assert.equal(found.size, body.length)
      return body
    }
    assert.equal(await read('plain.txt', null), 'plain')
    assert.equal(await read('plain.txt', 'v9'), 'plain')
    assert.equal(await read('b.txt', 'v2'), 'by version')
    assert.equal(await files.find('docs', 'none.txt', null), undefined)
    files.close()
  }
})

test('the folder of a tenant is found, or given', async () => {
  // The S3 of the tests lists no folders.
  for (const place of [home, join(home, 'tenant'), `s3://${s3.bucket}/old/tenant`]) {
    const files = await openFileSource(place, config)
    const found = await files.find('docs', 'deep/a.txt', 'v1')
    assert.ok(found && typeof found !== 'string', place)
    assert.equal(await text(await found.open()), 'of a tenant')
    files.close()
  }
})

test('no link is followed, and nothing outside is read', async () => {
  writeFileSync(join(home, 'secret'), 'x')
  symlinkSync(join(home, 'secret'), join(home, 'docs/link.txt'))
  symlinkSync(home, join(home, 'docs/folder'))
  const files = await openFileSource(home, config)
  assert.equal(await files.find('docs', 'link.txt', null), 'is a link or no file')
  assert.equal(await files.find('docs', 'folder/secret', null), 'is a link or no file')
  assert.equal(await files.find('..', 'secret', null), 'lies outside of the given folder')
  await assert.rejects(async () => openFileSource(join(home, 'docs/folder'), config), /is no folder/)
})
