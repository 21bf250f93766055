import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

const api = await startServer()
const [ada, bob] = [await api.signUp('ada@example.test'), await api.signUp('bob@example.test')]
const bucketOf = (json: object) => api.call('POST /api/admin/storage/buckets', { as: 'admin', json })
await bucketOf({ name: 'vault', access: 'private' })
await bucketOf({ name: 'ruled', access: 'policies' })
await api.sql(`create policy own on svc.objects using (owner = svc.uid());
  create policy templates on svc.objects for select using (name like 'templates/%')`)
const BUCKETS = ['open', 'vault', 'ruled'] as const
const refused = { code: 403, error: 'insufficient_privilege', message: 'insufficient storage permissions' }
const missing = { code: 404, error: 'file_not_found', message: 'file not found' }
const taken = { code: 409, error: 'already_exists', message: 'file already exists' }
const send = (bucket: string, name: string, as: string, content = name) =>
  upload(api, `/api/storage/${bucket}`, { as, name, content })
const act = (verb: 'move' | 'copy', bucket: string, name: string, to: string, as?: string) =>
  api.call(`POST /api/storage/${bucket}/${name}/${verb}`, { ...(as && { as }), json: { to } })
const text = async (bucket: string, name: string, as = ada.token) => {
  const { status, text } = await api.call(`GET /api/storage/${bucket}/${name}`, { as })
  return status === 200 ? text : status
}

test('a file moves to another name with its id, and a copy is one of its own', async () => {
  for (const bucket of BUCKETS) {
    const made = await send(bucket, 'a/one.txt', ada.token, 'one')
    const moved = await act('move', bucket, 'a/one.txt', 'b/two.txt', ada.token)
    assert.deepEqual([moved.status, moved.body.id, moved.body.name], [200, made.body.id, 'b/two.txt'], moved.text)
    assert.deepEqual([await text(bucket, 'a/one.txt'), await text(bucket, 'b/two.txt')], [404, 'one'])
    const copied = await act('copy', bucket, 'b/two.txt', 'c.txt', ada.token)
    assert.deepEqual([copied.status, copied.body.name, copied.body.userId], [201, 'c.txt', ada.user.id], copied.text)
    assert.notEqual(copied.body.id, made.body.id)
    assert.equal((await api.call(`DELETE /api/storage/${bucket}/b/two.txt`, { as: ada.token })).status, 204)
    assert.equal(await text(bucket, 'c.txt'), 'one')
    assert.equal('url' in copied.body, bucket === 'open')
  }
})

test('never onto a name that is there, nor from one that is not, nor to a bad one', async () => {
  for (const bucket of BUCKETS) {
    await send(bucket, 'x.txt', ada.token)
    await send(bucket, 'y.txt', ada.token)
    for (const verb of ['move', 'copy'] as const) {
      assert.deepEqual((await act(verb, bucket, 'x.txt', 'y.txt', ada.token)).body, taken)
      assert.deepEqual((await act(verb, bucket, 'x.txt', 'x.txt', ada.token)).body, taken)
      if (verb === 'copy') await act('copy', bucket, 'x.txt', 'same.txt', ada.token)
      if (verb === 'copy') assert.deepEqual((await act('copy', bucket, 'x.txt', 'same.txt', ada.token)).body, taken)
      assert.deepEqual((await act(verb, bucket, 'none.txt', 'z.txt', ada.token)).body, missing)
      for (const to of ['', '../x', '/x', 'a//b']) {
        assert.equal((await act(verb, bucket, 'x.txt', to, ada.token)).status, 400)
      }
    }
    assert.equal(await text(bucket, 'x.txt'), 'x.txt')
  }
})

test('a move needs the right to change, a copy the right to read', async () => {
  await send('open', 'of-ada.txt', ada.token)
  await send('vault', 'of-ada.txt', ada.token)
  await send('ruled', 'of-ada.txt', ada.token)
  assert.deepEqual((await act('move', 'open', 'of-ada.txt', 'm.txt', bob.token)).body, refused)
  assert.equal((await act('copy', 'open', 'of-ada.txt', 'of-bob.txt', bob.token)).body.userId, bob.user.id)
  assert.deepEqual((await act('move', 'vault', 'of-ada.txt', 'm.txt', bob.token)).body, refused)
  assert.deepEqual((await act('copy', 'vault', 'of-ada.txt', 'm.txt', bob.token)).body, refused)
  assert.equal((await act('copy', 'vault', 'of-ada.txt', 'm.txt')).status, 401)
  for (const verb of ['move', 'copy'] as const) {
    assert.deepEqual((await act(verb, 'ruled', 'of-ada.txt', 'm.txt', bob.token)).body, missing)
  }
  await send('ruled', 'templates/t.txt', ada.token)
  assert.deepEqual((await act('move', 'ruled', 'templates/t.txt', 'm.txt', bob.token)).body, refused)
  assert.equal((await act('copy', 'ruled', 'templates/t.txt', 'm.txt', bob.token)).body.userId, bob.user.id)
  assert.deepEqual((await act('copy', 'ruled', 'templates/t.txt', 'of-ada.txt', bob.token)).body, taken)
})

test('a key with storage:write alone moves and does not copy', async () => {
  const json = { userId: ada.user.id, name: 'k', scope: 'readwrite storage:write', allowedTables: ['posts'] }
  const { key } = (await api.call('POST /api/admin/api-keys', { as: 'admin', json })).body
  await send('vault', 'k1.txt', ada.token)
  assert.equal((await act('copy', 'vault', 'k1.txt', 'k2.txt', key)).status, 403)
  assert.equal((await act('move', 'vault', 'k1.txt', 'k2.txt', key)).status, 200)
})

test('ten moves to one name: one has it, and nothing is lost', async () => {
  const names = Array.from({ length: 10 }, (_, i) => `r${i}.txt`)
  for (const name of names) await send('vault', name, ada.token)
  const answers = await Promise.all(names.map((name) => act('move', 'vault', name, 'winner.txt', ada.token)))
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, ...Array(9).fill(409)])
  const left = await api.call('GET /api/storage/vault?prefix=r', { as: ada.token })
  assert.equal(left.body.totalItems, 9)
})

test('PUT has the file as its body, and replaces', async () => {
  for (const bucket of BUCKETS) {
    const put = (body: string, headers: Record<string, string> = {}, as = ada.token) =>
      api.call(`PUT /api/storage/${bucket}/p/put.txt`, { as, body, headers })
    const made = await put('one', { 'content-type': 'application/x-thing' })
    assert.deepEqual([made.status, made.body.contentType], [201, 'text/plain; charset=utf-8'], made.text)
    const again = await put('two')
    assert.deepEqual([again.status, again.body.id], [200, made.body.id])
    assert.equal(await text(bucket, 'p/put.txt'), 'two')
    assert.equal((await put('x', { 'if-none-match': '*' })).status, 412)
    assert.equal((await put('x', { 'if-match': '"other"' })).status, 412)
    const etag = (await api.call(`GET /api/storage/${bucket}/p/put.txt`, { as: ada.token })).headers.get('etag') ?? ''
    assert.equal((await put('three', { 'if-match': etag })).status, 200)
    assert.equal((await put('four', {}, bob.token)).status, 403)
    assert.equal(await text(bucket, 'p/put.txt'), 'three')
    const typed = await api.call(`PUT /api/storage/${bucket}/p/noext`, {
      as: ada.token,
      body: 'x',
      headers: { 'content-type': 'image/webp; q=1' },
    })
    assert.equal(typed.body.contentType, 'image/webp')
    assert.equal((await api.call(`PUT /api/storage/${bucket}/p/empty.txt`, { as: ada.token, body: '' })).body.size, 0)
  }
})
