import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { beginUpload, upload } from '../../../test/kit/upload.ts'

const api = await startServer()
const [ada, bob] = [await api.signUp('ada@example.test'), await api.signUp('bob@example.test')]
const settle = (name: string, isOpen: boolean) =>
  api.call('POST /api/admin/storage/buckets', { as: 'admin', json: { name, public: isOpen } })
await settle('vault', false)

const refused = { code: 403, error: 'insufficient_privilege', message: 'insufficient storage permissions' }
const bad = { code: 403, error: 'invalid_signed_url', message: 'invalid or expired signed URL' }
const sign = async (name: string, as: string): Promise<`/${string}`> =>
  (await api.call(`POST /api/storage/vault/${name}/sign`, { as, json: { expiresIn: 600 } })).body.url

test('a signed URL opens the bytes it was signed for, and no others that come to have their name', async () => {
  await upload(api, '/api/storage/vault', { as: ada.token, name: 'draft.txt', content: 'one' })
  const first = await sign('draft.txt', ada.token)
  const opened = await api.call(`GET ${first}`)
  assert.deepEqual([opened.status, opened.text], [200, 'one'])
  const [, seconds] = /^private, max-age=(\d+), immutable$/.exec(opened.headers.get('cache-control') ?? '') ?? []
  assert.ok(Number(seconds) > 0 && Number(seconds) <= 600, seconds)

  await upload(api, '/api/storage/vault', { as: ada.token, name: 'draft.txt', content: 'two' })
  assert.deepEqual((await api.call(`GET ${first}`)).body, bad)
  const second = await sign('draft.txt', ada.token)
  await api.call('DELETE /api/storage/vault/draft.txt', { as: ada.token })
  await upload(api, '/api/storage/vault', { as: bob.token, name: 'draft.txt', content: 'two' })
  assert.deepEqual((await api.call(`GET ${second}`)).body, bad)
})

test('a bad signature does not tell which names exist', async () => {
  await upload(api, '/api/storage/vault', { as: ada.token, name: 'there.txt' })
  for (const name of ['there.txt', 'none.txt']) {
    assert.deepEqual((await api.call(`GET /api/storage/vault/${name}?exp=9999999999&sig=x`)).body, bad)
  }
})

test('what the operator uploads is the operator’s: others read it where the bucket is public, and change it nowhere', async () => {
  for (const bucket of ['open', 'vault'] as const) {
    const at = `/api/storage/${bucket}` as const
    await upload(api, at, { as: 'admin', name: 'logo.svg', content: 'ours' })
    for (const as of [bob.token, ...(bucket === 'open' ? [''] : [])]) {
      const who = as === '' ? {} : { as }
      assert.deepEqual((await upload(api, at, { ...who, name: 'logo.svg', content: 'theirs' })).body, refused)
      assert.deepEqual((await api.call(`DELETE ${at}/logo.svg`, who)).body, refused)
    }
    assert.equal((await api.call(`GET ${at}/logo.svg`, { as: 'admin' })).text, 'ours')
  }
  assert.equal((await api.call('GET /api/storage/open/logo.svg')).text, 'ours')
  assert.deepEqual((await api.call('GET /api/storage/vault/logo.svg', { as: bob.token })).body, refused)
  assert.deepEqual((await api.call('POST /api/storage/vault/logo.svg/sign', { as: bob.token })).body, refused)
  const names = async (as: string) =>
    (await api.call('GET /api/storage/vault?prefix=logo', { as })).body.items.map(({ name }: { name: string }) => name)
  assert.deepEqual(await names(bob.token), [])
  assert.deepEqual(await names('admin'), ['logo.svg'])
  const again = await upload(api, '/api/storage/open', { as: 'admin', name: 'logo.svg', content: 'new' })
  assert.deepEqual([again.status, again.body.userId], [201, null])
})

test('what no one owns anyone changes, until the operator replaces it', async () => {
  await upload(api, '/api/storage/open', { name: 'wall.txt', content: 'a' })
  assert.equal((await upload(api, '/api/storage/open', { as: bob.token, name: 'wall.txt' })).status, 201)
  assert.equal((await upload(api, '/api/storage/open', { as: 'admin', name: 'wall.txt' })).status, 201)
  assert.deepEqual((await upload(api, '/api/storage/open', { name: 'wall.txt' })).body, refused)
  assert.equal((await api.call('DELETE /api/storage/open/wall.txt', { as: 'admin' })).status, 204)
})

/** An upload of which the end is sent when `meanwhile` is done. */
async function uploadDuring(bucket: string, as: string | undefined, meanwhile: () => Promise<unknown>) {
  const stored = async () => (await api.sql('select count(*)::int as n from svc.objects'))[0].n
  const before = await stored()
  const begun = await beginUpload(api.url, bucket, as)
  await meanwhile()
  const answer = await begun.finish()
  assert.equal(await stored(), before, 'nothing was stored')
  return answer
}
const at = '/api/admin/storage/buckets'

test('a bucket that is deleted or made private during an upload takes nothing it would have refused', async () => {
  await settle('gone', false)
  const deleted = await uploadDuring('gone', ada.token, () => api.call(`DELETE ${at}/gone`, { as: 'admin' }))
  assert.deepEqual(deleted, {
    status: 404,
    body: { code: 404, error: 'bucket_not_found', message: 'bucket not found' },
  })
  await settle('again', false)
  const replaced = await uploadDuring('again', ada.token, async () => {
    await api.call(`DELETE ${at}/again`, { as: 'admin' })
    await settle('again', true)
  })
  assert.equal(replaced.status, 404)
  await settle('closing', true)
  const closed = await uploadDuring('closing', undefined, () =>
    api.call(`PUT ${at}/closing`, { as: 'admin', json: { public: false } }),
  )
  assert.deepEqual(closed, {
    status: 401,
    body: { code: 401, error: 'unauthorized', message: 'missing auth token' },
  })
})

test('an upload whose bearer was revoked meanwhile is not stored', async () => {
  const json = { name: 'k' }
  const { key, apiKey } = (await api.call('POST /api/auth/api-keys', { as: ada.token, json })).body
  const { status } = await uploadDuring('vault', key, () =>
    api.call(`DELETE /api/auth/api-keys/${apiKey.id}`, { as: ada.token }),
  )
  assert.equal(status, 401)
})

test('files may be called like properties of every object', async () => {
  for (const name of ['constructor', '__proto__', 'toString', 'a/b.constructor', 'hasOwnProperty']) {
    const { status, body } = await upload(api, '/api/storage/open', { name, content: name })
    assert.deepEqual([status, body.contentType], [201, 'application/octet-stream'], name)
    assert.equal((await api.call(`GET /api/storage/open/${name}`)).text, name)
  }
})
