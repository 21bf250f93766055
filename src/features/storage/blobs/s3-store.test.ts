import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { AbortMultipartUploadCommand, CreateMultipartUploadCommand, S3Client } from '@aws-sdk/client-s3'
import { startS3 } from '../../../../test/fakes/s3-server.ts'
import { S3Store } from './s3-store.ts'

const { store: config } = await startS3()
const client = new S3Client({
  endpoint: `http://${config.endpoint}`,
  region: config.region,
  forcePathStyle: true,
  credentials: { accessKeyId: config.accessKey, secretAccessKey: config.secretKey },
})

const begin = (Key: string) => client.send(new CreateMultipartUploadCommand({ Bucket: config.bucket, Key }))
const anyone = new S3Store({ ...config, abandonedMs: -1_000 })
const patient = new S3Store({ ...config, abandonedMs: 3_600_000 })
const listed = async () => {
  const ids = []
  for await (const { id } of anyone.list()) ids.push(id)
  return ids
}

test('uploads that nobody finishes are ended, however many there are, and only when they are old', async () => {
  for (let i = 0; i < 5; i++) await begin(`blobs/${randomUUID()}`)
  const { UploadId, Key } = await begin('not-ours/x')
  assert.equal(await patient.removeUnfinished(), 0)
  assert.equal(await anyone.removeUnfinished(), 5)
  assert.equal(await anyone.removeUnfinished(), 0)
  // An upload of another owner is left alone.
  await client.send(new AbortMultipartUploadCommand({ Bucket: config.bucket, Key, UploadId }))
})

test('an upload that breaks in the middle leaves neither a part nor a file', async () => {
  function* broken() {
    for (let i = 0; i < 20; i++) yield Buffer.alloc(1024 * 1024)
    throw new Error('the client is gone')
  }
  await assert.rejects(anyone.write(randomUUID(), Readable.from(broken())), /the client is gone/)
  assert.equal(await anyone.removeUnfinished(), 0)
  assert.deepEqual(await listed(), [])
})

test('what was written is listed until it is removed, removing it again is fine, and a store that is away is 503', async () => {
  const id = randomUUID()
  await anyone.write(id, Readable.from([Buffer.from('hello')]))
  assert.deepEqual(await listed(), [id])
  await anyone.remove(id)
  await anyone.remove(id)
  assert.deepEqual(await listed(), [])
  assert.equal(await anyone.read(id, { start: 0, end: 4 }), undefined)
  // Nothing listens there.
  const away = new S3Store({ ...config, endpoint: '127.0.0.1:1', abandonedMs: 0 })
  const isSaid = { status: 503, message: 'storage unavailable', headers: { 'Retry-After': '1' } }
  await assert.rejects(away.read(id, { start: 0, end: 4 }), isSaid)
  await assert.rejects(away.write(id, Readable.from([Buffer.from('hello')])), isSaid)
  for (const store of [anyone, patient, away]) await store.stop()
  client.destroy()
})
