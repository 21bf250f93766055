import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

const api = await startServer({ config: { 'storage.user_quota_bytes': '10KB' } })
const [ada, bob] = [await api.signUp('ada@example.test'), await api.signUp('bob@example.test')]
const bucketOf = (json: object) => api.call('POST /api/admin/storage/buckets', { as: 'admin', json })
await bucketOf({ name: 'ruled', access: 'policies' })
await api.sql(`create policy own on svc.objects using (owner = svc.uid())`)
const exceeded = { code: 413, error: 'quota_exceeded', message: 'quota exceeded' }
const send = (bucket: string, name: string, bytes: number, as: string) =>
  upload(api, `/api/storage/${bucket}`, { as, name, content: 'x'.repeat(bytes) })
const counted = async () =>
  Object.fromEntries(
    (await api.sql('select kind, key, bytes::int from svc.stored_bytes')).map((row) => [row.key, Number(row.bytes)]),
  )

test('what an account stores is bounded over all buckets; replacing and deleting give back', async () => {
  for (const bucket of ['open', 'ruled']) {
    assert.equal((await send(bucket, 'a', 6_000, ada.token)).status, 201)
    assert.deepEqual((await send(bucket, 'b', 5_000, ada.token)).body, exceeded)
    assert.deepEqual((await send(bucket, 'a', 11_000, ada.token)).body, exceeded)
    const put = await api.call(`PUT /api/storage/${bucket}/b`, { as: ada.token, body: 'x'.repeat(5_000) })
    assert.deepEqual(put.body, exceeded)
    const copy = await api.call(`POST /api/storage/${bucket}/a/copy`, { as: ada.token, json: { to: 'b' } })
    assert.deepEqual(copy.body, exceeded)
    assert.equal((await send(bucket, 'a', 9_000, ada.token)).status, 201)
    assert.equal((await counted())[ada.user.id], 9_000)
    assert.equal((await send(bucket, 'of-bob', 9_000, bob.token)).status, 201)
    for (const [name, as] of [
      ['a', ada.token],
      ['of-bob', bob.token],
    ] as const) {
      assert.equal((await api.call(`DELETE /api/storage/${bucket}/${name}`, { as })).status, 204)
    }
    assert.equal((await counted())[ada.user.id], 0)
  }
})

test('a bucket has a quota, the operator’s files count too', async () => {
  await send('full', 'before', 3_000, ada.token)
  await bucketOf({ name: 'full', quota_bytes: 5_000 })
  assert.equal((await counted())['full'], 3_000)
  assert.deepEqual((await send('full', 'x', 3_000, bob.token)).body, exceeded)
  assert.deepEqual((await send('full', 'x', 3_000, 'admin')).body, exceeded)
  assert.equal((await send('full', 'x', 2_000, 'admin')).status, 201)
  const change = (json: object) => api.call('PUT /api/admin/storage/buckets/full', { as: 'admin', json })
  assert.equal((await change({ quota_bytes: null })).body.quota_bytes, undefined)
  assert.equal((await send('full', 'y', 3_000, bob.token)).status, 201)
  assert.equal((await change({ quota_bytes: 9_000 })).body.quota_bytes, 9_000)
  assert.equal((await counted())['full'], 8_000)
  assert.equal((await change({ inline: true })).body.quota_bytes, 9_000)
  assert.equal((await change({ quota_bytes: -1 })).status, 400)
})

test('uploads at once do not pass a quota together', async () => {
  await bucketOf({ name: 'raced', quota_bytes: 5_000 })
  const answers = await Promise.all(Array.from({ length: 10 }, (_, i) => send('raced', `r${i}`, 1_000, 'admin')))
  assert.deepEqual(answers.map(({ status }) => status).sort(), [...Array(5).fill(201), ...Array(5).fill(413)])
  assert.equal((await counted())['raced'], 5_000)
})

test('a bucket may take some types and sizes only', async () => {
  await bucketOf({ name: 'pictures', max_size: 1_000, allowed_types: ['image/*', 'application/pdf'] })
  const tooLarge = { code: 413, error: 'payload_too_large', message: 'file too large' }
  const wrong = { code: 415, error: 'unsupported_media_type', message: 'content type not allowed: text/html' }
  assert.equal((await send('pictures', 'a.png', 1_000, ada.token)).status, 201)
  assert.equal((await send('pictures', 'a.pdf', 1, ada.token)).status, 201)
  assert.deepEqual((await send('pictures', 'a.html', 1, ada.token)).body, wrong)
  assert.deepEqual((await send('pictures', 'b.png', 1_001, ada.token)).body, tooLarge)
  const put = (name: string, bytes: number) =>
    api.call(`PUT /api/storage/pictures/${name}`, { as: ada.token, body: 'x'.repeat(bytes) })
  assert.deepEqual((await put('p.html', 1)).body, wrong)
  assert.deepEqual((await put('p.png', 1_001)).body, tooLarge)
  assert.equal((await put('p.png', 1_000)).status, 201)
  for (const bad of ['image', '*/*', 'a b/c', '']) {
    assert.equal((await bucketOf({ name: 'bad', allowed_types: [bad] })).status, 400, bad)
  }
})
