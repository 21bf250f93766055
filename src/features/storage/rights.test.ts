import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

const api = await startServer({ config: { 'auth.oauth_provider.enabled': true } })
const [ada, bob] = [await api.signUp('ada@example.test'), await api.signUp('bob@example.test')]
const keyOf = async (scope: string): Promise<string> => {
  const json = { userId: ada.user.id, name: scope, scope }
  return (await api.call('POST /api/admin/api-keys', { as: 'admin', json })).body.key
}
const [readonlyKey, writingKey] = [await keyOf('readonly'), await keyOf('readwrite')]

const missing = { code: 401, error: 'unauthorized', message: 'missing auth token' }
const refused = { code: 403, error: 'insufficient_privilege', message: 'insufficient storage permissions' }
const invalid = { code: 401, error: 'invalid_token', message: 'invalid or expired token' }

before(async () => {
  await api.call('POST /api/admin/storage/buckets', { as: 'admin', json: { name: 'vault', public: false } })
  for (const bucket of ['open', 'vault']) {
    await upload(api, `/api/storage/${bucket}`, { as: ada.token, name: 'of-ada.txt' })
    await upload(api, `/api/storage/${bucket}`, { as: 'admin', name: 'of-nobody.txt' })
  }
  await api.sql('update svc.objects set is_operators = false')
})

const names = (body: { items: { name: string }[] }) => body.items.map(({ name }) => name)

test('everybody reads, lists and signs in a public bucket, whatever the bearer is worth', async () => {
  for (const as of [undefined, bob.token, 'svc_at_unknown', 'nonsense', readonlyKey]) {
    const who = as === undefined ? {} : { as }
    assert.equal((await api.call('GET /api/storage/open/of-ada.txt', who)).status, 200)
  }
  assert.deepEqual(names((await api.call('GET /api/storage/open')).body), ['of-ada.txt', 'of-nobody.txt'])
  assert.equal((await api.call('POST /api/storage/open/of-ada.txt/sign')).status, 200)
  assert.deepEqual((await api.call('GET /api/storage/open', { as: 'nonsense' })).body, invalid)
})

test('in a private bucket nobody without a bearer learns anything', async () => {
  const calls = [
    'GET /api/storage/vault/of-ada.txt',
    'HEAD /api/storage/vault/of-ada.txt',
    'GET /api/storage/vault/none.txt',
    'GET /api/storage/vault',
    'DELETE /api/storage/vault/of-nobody.txt',
    'DELETE /api/storage/vault/none.txt',
    'POST /api/storage/vault/of-nobody.txt/sign',
    'POST /api/storage/vault/none.txt/sign',
  ] as const
  for (const line of calls) {
    const { status, body } = await api.call(line)
    assert.equal(status, 401, line)
    if (!line.startsWith('HEAD')) assert.deepEqual(body, missing, line)
  }
  assert.deepEqual((await upload(api, '/api/storage/vault', { name: 'x.txt' })).body, missing)
  assert.deepEqual((await api.call('GET /api/storage/vault/of-ada.txt', { as: 'nonsense' })).body, invalid)
})

test('a private object is its owner’s and the admin’s; an ownerless one every known caller’s', async () => {
  for (const as of [ada.token, 'admin', readonlyKey, writingKey]) {
    assert.equal((await api.call('GET /api/storage/vault/of-ada.txt', { as })).status, 200)
    assert.equal((await api.call('POST /api/storage/vault/of-ada.txt/sign', { as })).status, 200)
  }
  assert.deepEqual((await api.call('GET /api/storage/vault/of-ada.txt', { as: bob.token })).body, refused)
  assert.deepEqual((await api.call('POST /api/storage/vault/of-ada.txt/sign', { as: bob.token })).body, refused)
  assert.equal((await api.call('GET /api/storage/vault/of-nobody.txt', { as: bob.token })).status, 200)
  assert.equal((await api.call('GET /api/storage/vault/none.txt', { as: bob.token })).status, 404)
  assert.deepEqual(names((await api.call('GET /api/storage/vault', { as: bob.token })).body), ['of-nobody.txt'])
  const { body } = await api.call('GET /api/storage/vault', { as: ada.token })
  assert.deepEqual([names(body), body.totalItems], [['of-ada.txt', 'of-nobody.txt'], 2])
  assert.deepEqual(names((await api.call('GET /api/storage/vault', { as: 'admin' })).body), names(body))
  assert.equal(body.items[0].url, undefined)
})

test('a private read is not for shared caches', async () => {
  const { headers } = await api.call('GET /api/storage/vault/of-ada.txt', { as: ada.token })
  assert.equal(headers.get('cache-control'), 'private, no-cache')
})

test('what belongs to somebody is changed by them or an admin only; what belongs to nobody by anyone', async () => {
  for (const bucket of ['open', 'vault']) {
    const at = `/api/storage/${bucket}`
    assert.deepEqual((await upload(api, at, { as: bob.token, name: 'of-ada.txt', content: 'b' })).body, refused)
    assert.deepEqual((await api.call(`DELETE ${at}/of-ada.txt` as 'DELETE /', { as: bob.token })).body, refused)
    for (const as of [ada.token, writingKey, 'admin']) {
      const { status, body } = await upload(api, at, { as, name: 'of-ada.txt', content: as })
      assert.deepEqual([status, body.userId], [201, ada.user.id])
    }
    const free = await upload(api, at, { as: bob.token, name: 'of-nobody.txt', content: 'b' })
    assert.deepEqual([free.status, free.body.userId], [201, null])
    assert.equal((await api.call(`GET ${at}/of-ada.txt` as 'GET /', { as: ada.token })).text, 'admin')
  }
  assert.deepEqual((await upload(api, '/api/storage/open', { name: 'of-ada.txt' })).body, refused)
  assert.equal((await upload(api, '/api/storage/open', { name: 'of-nobody.txt' })).status, 201)
})

test('an upload that was refused leaves no bytes', async () => {
  const count = async () => (await api.sql('select count(*)::int as n from svc.blobs'))[0].n
  const before = await count()
  await upload(api, '/api/storage/open', { as: bob.token, name: 'of-ada.txt', content: 'b' })
  assert.equal(await count(), before)
})

test('a readonly key reads, lists and signs, and neither uploads nor deletes', async () => {
  const message = 'api key scope does not permit write operations'
  const form = await upload(api, '/api/storage/open', { as: readonlyKey, name: 'k.txt' })
  assert.deepEqual(form.body, { code: 403, error: 'insufficient_scope', message })
  const gone = await api.call('DELETE /api/storage/open/of-nobody.txt', { as: readonlyKey })
  assert.deepEqual(gone.body, { code: 403, error: 'insufficient_scope', message })
  assert.equal((await api.call('GET /api/storage/open', { as: readonlyKey })).status, 200)
})

test('two strangers who race for a new name: it belongs to the one who was first', async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      upload(api, '/api/storage/open', { as: i % 2 ? ada.token : bob.token, name: 'raced.txt', content: String(i) }),
    ),
  )
  const owners = new Set(answers.filter(({ status }) => status === 201).map(({ body }) => body.userId))
  assert.equal(owners.size, 1)
  assert.ok(answers.every(({ status }) => status === 201 || status === 403))
})

test('a signed URL opens one private object until its time, and only as it was signed', async () => {
  const { body } = await api.call('POST /api/storage/vault/of-ada.txt/sign', { as: ada.token, json: { expiresIn: 60 } })
  const url = body.url as `/${string}`
  assert.match(url, /^\/api\/storage\/vault\/of-ada\.txt\?exp=\d+&sig=[\w-]{43}$/)
  const got = await api.call(`GET ${url}`)
  assert.equal(got.status, 200)
  assert.match(got.headers.get('cache-control') ?? '', /^private, max-age=(60|[1-5]?\d), immutable$/)
  assert.equal((await api.call(`GET ${url}`, { as: 'nonsense' })).status, 200)
  const bad = { code: 403, error: 'invalid_signed_url', message: 'invalid or expired signed URL' }
  const exp = Number(/exp=(\d+)/.exec(url)?.[1])
  const forged = [
    url.replace(/exp=\d+/, `exp=${exp + 1}`),
    url.replace('of-ada', 'of-nobody'),
    url.replace('vault', 'open'),
    `${url}x`,
    url.replace(/&sig=.*/, '&sig='),
    url.replace(/exp=\d+/, 'exp=99999999999999999999'),
    url.replace(/exp=\d+&/, ''),
  ] as `/${string}`[]
  for (const one of forged) assert.deepEqual((await api.call(`GET ${one}`)).body, bad, one)
  assert.deepEqual((await api.call('GET /api/storage/open/of-ada.txt?exp=1&sig=x')).body, bad)
})

test('signed URLs outlive a rotation of the token keys', async () => {
  const { body } = await api.call('POST /api/storage/vault/of-nobody.txt/sign', { as: 'admin' })
  await api.call('POST /api/admin/secrets/rotate', { as: 'admin' })
  assert.equal((await api.call(`GET ${body.url}` as 'GET /')).status, 200)
})

test('the life of a signed URL is an hour unless told, and a week at most', async () => {
  const sign = (json: unknown) => api.call('POST /api/storage/open/of-nobody.txt/sign', { json })
  const secondsOf = ({ body }: { body: { url: string } }) => Number(/exp=(\d+)/.exec(body.url)?.[1]) - Date.now() / 1000
  for (const json of [{}, { expiresIn: 0 }, { expiresIn: -5 }]) {
    const left = secondsOf(await sign(json))
    assert.ok(left > 3500 && left <= 3600, String(left))
  }
  assert.equal((await sign({ expiresIn: 604_800 })).status, 200)
  assert.deepEqual((await sign({ expiresIn: 604_801 })).body, {
    code: 400,
    error: 'validation_failed',
    message: 'expiresIn must not exceed 604800 (7 days)',
  })
  assert.equal((await sign({ expiresIn: 1.5 })).status, 400)
  assert.equal((await sign({ expiresIn: 'soon' })).status, 400)
  assert.equal((await api.call('POST /api/storage/open/none.txt/sign')).status, 404)
})

test('buckets are set up, changed and deleted by the admin', async () => {
  const at = '/api/admin/storage/buckets'
  const made = await api.call(`POST ${at}`, { as: 'admin', json: { name: 'b1' } })
  assert.equal(made.status, 201)
  const { id, createdAt, updatedAt, ...rest } = made.body
  assert.deepEqual(rest, { name: 'b1', access: 'public', public: true, inline: false })
  assert.ok(id && createdAt && updatedAt)
  const again = await api.call(`POST ${at}`, { as: 'admin', json: { name: 'b1' } })
  assert.deepEqual(again.body, { code: 409, error: 'already_exists', message: 'bucket already exists' })
  await upload(api, '/api/storage/b1', { name: 'page.html', content: '<b>' })
  assert.match(
    (await api.call('GET /api/storage/b1/page.html')).headers.get('content-disposition') ?? '',
    /^attachment/,
  )
  const changed = await api.call(`PUT ${at}/b1`, { as: 'admin', json: { inline: true } })
  assert.deepEqual([changed.status, changed.body.public, changed.body.inline], [200, true, true])
  const inline = await api.call('GET /api/storage/b1/page.html')
  assert.equal(inline.headers.get('content-disposition'), null)
  assert.equal(inline.headers.get('content-security-policy'), 'sandbox')
  const { body } = await api.call(`GET ${at}`, { as: 'admin' })
  assert.deepEqual(
    body.items.map(({ name }: { name: string }) => name),
    ['b1', 'vault'],
  )
  const kept = await api.call(`DELETE ${at}/b1`, { as: 'admin' })
  assert.deepEqual(kept.body, {
    code: 409,
    error: 'bucket_not_empty',
    message: 'bucket has objects; use force=true to delete',
  })
  assert.equal((await api.call(`DELETE ${at}/b1?force=true`, { as: 'admin' })).status, 204)
  assert.equal((await api.call('GET /api/storage/b1/page.html')).status, 404)
  for (const line of [`PUT ${at}/b1`, `DELETE ${at}/b1`] as const) {
    assert.deepEqual((await api.call(line, { as: 'admin', ...(line.startsWith('PUT') && { json: {} }) })).body, {
      code: 404,
      error: 'bucket_not_found',
      message: 'bucket not found',
    })
  }
})

test('a token of a client alone is a known caller who owns nothing, and keeps to its scope', async () => {
  const app = await api.call('POST /api/admin/apps', { as: 'admin', json: { name: 'a', ownerUserId: ada.user.id } })
  const json = {
    appId: app.body.id,
    name: 'machine',
    clientType: 'confidential',
    redirectUris: ['https://app.test/cb'],
    scopes: ['readonly', 'readwrite'],
  }
  const { body: made } = await api.call('POST /api/admin/oauth/clients', { as: 'admin', json })
  const tokenOf = async (scope: string): Promise<string> => {
    const form = {
      grant_type: 'client_credentials',
      scope,
      client_id: made.client.clientId,
      client_secret: made.clientSecret,
    }
    return (await api.call('POST /api/auth/token', { form })).body.access_token
  }
  const [reader, writer] = [await tokenOf('readonly'), await tokenOf('readwrite')]
  const stored = await upload(api, '/api/storage/vault', { as: writer, name: 'of-machine.txt' })
  assert.deepEqual([stored.status, stored.body.userId], [201, null])
  assert.equal((await upload(api, '/api/storage/vault', { as: reader, name: 'r.txt' })).status, 403)
  assert.equal((await api.call('DELETE /api/storage/vault/of-machine.txt', { as: reader })).status, 403)
  assert.equal((await api.call('GET /api/storage/vault/of-machine.txt', { as: reader })).status, 200)
  assert.deepEqual((await api.call('GET /api/storage/vault/of-ada.txt', { as: writer })).body, refused)
  assert.equal((await api.call('DELETE /api/storage/vault/of-machine.txt', { as: writer })).status, 204)
})

test('where visitors may do nothing, public and signed objects stay readable', async () => {
  const closed = await startServer({ on: api, config: { 'api.anonymous': 'none' } })
  assert.equal((await closed.call('GET /api/storage/open/of-nobody.txt')).status, 200)
  const { body } = await closed.call('POST /api/storage/vault/of-nobody.txt/sign', { as: 'admin' })
  assert.equal((await closed.call(`GET ${body.url}` as 'GET /')).status, 200)
  const missingHeader = { code: 401, error: 'unauthorized', message: 'missing or invalid authorization header' }
  assert.deepEqual((await closed.call('GET /api/storage/open')).body, missingHeader)
  assert.deepEqual((await upload(closed, '/api/storage/open', { name: 'x' })).body, missingHeader)
  assert.deepEqual((await closed.call('DELETE /api/storage/open/of-nobody.txt')).body, missingHeader)
})

test('switched off, storage is not there', async () => {
  const off = await startServer({ config: { 'storage.enabled': false } })
  const { status, body } = await off.call('GET /api/storage/open')
  assert.deepEqual([status, body.message], [404, 'storage is not enabled'])
})
