import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

const api = await startServer()
const [ada, bob] = [await api.signUp('ada@example.test'), await api.signUp('bob@example.test')]
const bucketOf = (json: object) => api.call('POST /api/admin/storage/buckets', { as: 'admin', json })
const policy = async (json: object) => {
  const made = await api.call('POST /api/admin/rls', { as: 'admin', json: { table: 'svc.objects', ...json } })
  assert.equal(made.status, 201, made.text)
}

const refused = { code: 403, error: 'insufficient_privilege', message: 'insufficient storage permissions' }
const missing = { code: 404, error: 'file_not_found', message: 'file not found' }

test('access of a bucket is private, public or policies; public is its short form', async () => {
  const fields = ({ body: { access, public: isOpen } }: { body: { access: string; public: boolean } }) => [
    access,
    isOpen,
  ]
  assert.deepEqual(fields(await bucketOf({ name: 'plain' })), ['public', true])
  assert.deepEqual(fields(await bucketOf({ name: 'closed', public: false })), ['private', false])
  assert.deepEqual(fields(await bucketOf({ name: 'ruled', access: 'policies' })), ['policies', false])
  const change = (name: string, json: object) =>
    api.call(`PUT /api/admin/storage/buckets/${name}`, { as: 'admin', json })
  for (const isOpen of [true, false]) assert.equal((await change('ruled', { public: isOpen })).status, 400)
  assert.equal((await change('closed', { access: 'policies', public: true })).status, 400)
  assert.equal((await bucketOf({ name: 'both', access: 'policies', public: true })).status, 400)
  assert.equal((await bucketOf({ name: 'none', access: 'secret' })).status, 400)
  assert.deepEqual(fields(await change('ruled', { inline: true })), ['policies', false])
  assert.deepEqual(fields(await change('closed', { access: 'public' })), ['public', true])
  assert.deepEqual(fields(await change('closed', { public: false })), ['private', false])
  assert.deepEqual(fields(await change('ruled', { access: 'private' })), ['private', false])
})

/** What each may do in a bucket: read, list, upload, replace, delete. */
const ACTIONS = ['read', 'head', 'sign', 'list', 'upload', 'replace', 'delete'] as const

async function matrix(bucket: string): Promise<Record<string, string>> {
  const table: Record<string, string> = {}
  for (const [who, as] of [
    ['visitor', undefined],
    ['ada', ada.token],
    ['bob', bob.token],
    ['admin', 'admin'],
  ] as const) {
    const caller = as === undefined ? {} : { as }
    const at = `/api/storage/${bucket}`
    const answers: (string | number)[] = []
    for (const action of ACTIONS) {
      const name = `${ada.user.id}/${action}.txt`
      const fresh = `${ada.user.id}/${action}-${who}.txt`
      await upload(api, at, { as: ada.token, name, content: 'ada' })
      await api.sql('delete from svc.objects where bucket = $1 and name = $2', [bucket, fresh])
      const { status, body } = await {
        read: () => api.call(`GET ${at}/${name}` as 'GET /', caller),
        head: () => api.call(`HEAD ${at}/${name}` as 'HEAD /', caller),
        sign: () => api.call(`POST ${at}/${name}/sign` as 'POST /', caller),
        list: () => api.call(`GET ${at}?prefix=${ada.user.id}/list.txt` as 'GET /', caller),
        upload: () => upload(api, at, { ...caller, name: fresh }),
        replace: () => upload(api, at, { ...caller, name, content: who }),
        delete: () => api.call(`DELETE ${at}/${name}` as 'DELETE /', caller),
      }[action]()
      answers.push(action === 'list' && status === 200 ? `${body.totalItems} listed` : status)
    }
    table[who] = answers.join(' ')
  }
  return table
}

test('users × actions × buckets: policies decide in buckets whose access is policies, and in no other', async () => {
  await bucketOf({ name: 'vault', access: 'private' })
  await bucketOf({ name: 'homes', access: 'policies' })
  // The widest policies there are open nothing elsewhere.
  const before = [await matrix('vault'), await matrix('open')]
  await policy({ name: 'everything', using: `bucket <> 'homes'`, withCheck: `bucket <> 'homes'` })
  assert.deepEqual([await matrix('vault'), await matrix('open')], before)
  await api.call('DELETE /api/admin/rls/svc.objects/everything', { as: 'admin' })
  assert.deepEqual(before, [
    {
      visitor: '401 401 401 401 401 401 401',
      ada: '200 200 200 1 listed 201 201 204',
      bob: '403 403 403 0 listed 201 403 403',
      admin: '200 200 200 1 listed 201 201 204',
    },
    {
      visitor: '200 200 200 1 listed 201 403 403',
      ada: '200 200 200 1 listed 201 201 204',
      bob: '200 200 200 1 listed 201 403 403',
      admin: '200 200 200 1 listed 201 201 204',
    },
  ])
  // Without a policy of its own nobody but the operator does anything; ada's uploads of the matrix are refused too.
  assert.deepEqual(await matrix('homes'), {
    visitor: '404 404 404 0 listed 403 403 404',
    ada: '404 404 404 0 listed 403 403 404',
    bob: '404 404 404 0 listed 403 403 404',
    admin: '404 404 404 0 listed 201 201 404',
  })
  await api.sql(`delete from svc.objects where bucket = 'homes'`)
  const mine = `bucket = 'homes' and (svc.folder(name))[1] = svc.uid()::text`
  await policy({ name: 'homes_all', using: mine, withCheck: mine })
  assert.deepEqual(await matrix('homes'), {
    visitor: '404 404 404 0 listed 403 403 404',
    ada: '200 200 200 1 listed 201 201 204',
    bob: '404 404 404 0 listed 403 403 404',
    admin: '200 200 200 1 listed 201 201 204',
  })
  await policy({ name: 'homes_read', command: 'SELECT', using: `bucket = 'homes'` })
  assert.deepEqual(await matrix('homes'), {
    visitor: '200 200 200 1 listed 403 403 403',
    ada: '200 200 200 1 listed 201 201 204',
    bob: '200 200 200 1 listed 403 403 403',
    admin: '200 200 200 1 listed 201 201 204',
  })
})

test('who may insert uploads, though reading is for others; a name that is taken is a refusal', async () => {
  await bucketOf({ name: 'dropbox', access: 'policies' })
  await policy({
    name: 'drop',
    command: 'INSERT',
    withCheck: `bucket = 'dropbox' and svc.extension(name) = 'txt' and svc.filename(name) <> 'no.txt' and size < 10 and owner = svc.uid()`,
  })
  const at = '/api/storage/dropbox'
  const dropped = await upload(api, at, { as: bob.token, name: 'in/a.txt', content: 'dropped' })
  assert.deepEqual([dropped.status, dropped.body.name, dropped.body.userId], [201, 'in/a.txt', bob.user.id])
  assert.equal(dropped.body.url, undefined)
  assert.deepEqual((await api.call(`GET ${at}/in/a.txt`, { as: bob.token })).body, missing)
  for (const as of [bob.token, ada.token]) {
    assert.deepEqual((await upload(api, at, { as, name: 'in/a.txt' })).body, refused)
  }
  for (const file of [{ name: 'a.png' }, { name: 'in/no.txt' }, { name: 'b.txt', content: 'far too long' }]) {
    assert.deepEqual((await upload(api, at, { as: bob.token, ...file })).body, refused, file.name)
  }
  assert.deepEqual((await upload(api, at, { name: 'of-visitor.txt' })).body, refused)
  assert.deepEqual((await api.call(`DELETE ${at}/in/a.txt`, { as: bob.token })).body, missing)
  assert.equal((await api.call(`GET ${at}/in/a.txt`, { as: 'admin' })).text, 'dropped')
})

test('metadata comes with the upload and is seen by policies', async () => {
  await bucketOf({ name: 'tagged', access: 'policies' })
  await policy({
    name: 'tagged_all',
    using: `bucket = 'tagged' and metadata ->> 'team' = 'a'`,
  })
  const send = async (metadata: string) => {
    const form = new FormData()
    form.set('metadata', metadata)
    form.set('file', new Blob(['x']), 'x.txt')
    const headers = { authorization: `Bearer ${ada.token}` }
    const answer = await fetch(`${api.url}/api/storage/tagged`, { method: 'POST', body: form, headers })
    return { status: answer.status, body: (await answer.json()) as { metadata?: unknown } }
  }
  assert.equal((await send('{"team":"b"}')).status, 403)
  const made = await send('{"team":"a"}')
  assert.deepEqual([made.status, made.body.metadata], [201, { team: 'a' }])
  for (const bad of ['[1]', 'nonsense', 'null', JSON.stringify({ a: 'x'.repeat(17_000) })]) {
    assert.equal((await send(bad)).status, 400)
  }
})

test('If-Match of a delete is held against the version', async () => {
  const at = `/api/storage/homes/${ada.user.id}/m.txt` as const
  await upload(api, '/api/storage/homes', { as: ada.token, name: `${ada.user.id}/m.txt` })
  const remove = (match: string) => api.call(`DELETE ${at}`, { as: ada.token, headers: { 'if-match': match } })
  assert.equal((await remove('"other"')).status, 412)
  const etag = (await api.call(`GET ${at}`, { as: ada.token })).headers.get('etag') ?? ''
  assert.equal((await remove(etag)).status, 204)
})

test('a name freed and taken by another user opens for no old signed URL', async () => {
  await bucketOf({ name: 'shared', access: 'policies' })
  await policy({ name: 'shared_all', using: `bucket = 'shared'` })
  const sign = async (): Promise<`/${string}`> =>
    (await api.call('POST /api/storage/shared/x.txt/sign', { as: ada.token, json: {} })).body.url
  await upload(api, '/api/storage/shared', { as: ada.token, name: 'x.txt', content: 'same' })
  const old = await sign()
  const opened = await api.call(`GET ${old}`)
  assert.equal(opened.text, 'same')
  assert.match(opened.headers.get('cache-control') ?? '', /^private, max-age=\d+, immutable$/)
  await api.call('DELETE /api/storage/shared/x.txt', { as: ada.token })
  await upload(api, '/api/storage/shared', { as: bob.token, name: 'x.txt', content: 'same' })
  assert.equal((await api.call(`GET ${old}`)).status, 403)
  const next = await sign()
  await upload(api, '/api/storage/shared', { as: bob.token, name: 'x.txt', content: 'other' })
  assert.equal((await api.call(`GET ${next}`)).status, 403)
})

test('rls routes and explain take svc.objects; its row security stays on', async () => {
  const listed = await api.call('GET /api/admin/rls/svc.objects', { as: 'admin' })
  assert.ok(listed.body.some(({ policyName }: { policyName: string }) => policyName === 'drop'))
  const status = await api.call('GET /api/admin/rls/svc.objects/status', { as: 'admin' })
  assert.equal(status.body.rlsEnabled, true)
  assert.equal((await api.call('POST /api/admin/rls/svc.objects/disable', { as: 'admin' })).status, 400)
  assert.equal((await api.call('POST /api/admin/rls/svc.objects/enable', { as: 'admin' })).status, 200)
  const own = await api.call('DELETE /api/admin/rls/svc.objects/policies_buckets_only', { as: 'admin' })
  assert.equal(own.status, 400)
  assert.equal((await api.call('GET /api/admin/rls/svc.users', { as: 'admin' })).status, 400)
  const explain = async (json: object) =>
    (await api.call('POST /api/admin/rls/explain', { as: 'admin', json: { table: 'svc.objects', ...json } })).body
  const row = { bucket: 'dropbox', name: 'a.txt', size: 1, owner: bob.user.id }
  const allowed = await explain({ operation: 'insert', user_id: bob.user.id, row })
  assert.deepEqual([allowed.table, allowed.allowed, allowed.rlsEnabled], ['svc.objects', true, true])
  assert.ok(allowed.decidedBy.includes('drop'))
  const elsewhere = await explain({ operation: 'insert', user_id: bob.user.id, row: { ...row, bucket: 'vault' } })
  assert.deepEqual([elsewhere.allowed, elsewhere.decidedBy], [false, ['policies_buckets_only']])
  assert.equal((await explain({ operation: 'select', user_id: bob.user.id, row })).allowed, false)
})
