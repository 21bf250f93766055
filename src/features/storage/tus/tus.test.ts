import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { Upload } from 'tus-js-client'
import { eventually, startServer, type TestServer } from '../../../../test/kit/kit.ts'

const api = await startServer()
const other = await startServer({ on: api })
const [ada, bob] = [await api.signUp('ada@example.test'), await api.signUp('bob@example.test')]
const bucketOf = (json: object) => api.call('POST /api/admin/storage/buckets', { as: 'admin', json })
await bucketOf({ name: 'vault', access: 'private' })
await bucketOf({ name: 'ruled', access: 'policies' })
await api.sql(`create policy own on svc.objects using (owner = svc.uid() and name like 'mine/%')`)

const base64 = (text: string) => Buffer.from(text).toString('base64')
const metadata = (values: Record<string, string>) =>
  Object.entries(values)
    .map(([key, value]) => `${key} ${base64(value)}`)
    .join(',')
const TUS = { 'tus-resumable': '1.0.0' }
const OCTETS = { 'content-type': 'application/offset+octet-stream' }

type Headers = Record<string, string>
const begin = (
  bucket: string,
  name: string,
  length: number,
  { as = ada.token, headers = {} as Headers, body = '' } = {},
) =>
  api.call(`POST /api/storage/tus/${bucket}`, {
    ...(as && { as }),
    headers: { ...TUS, 'upload-length': String(length), 'upload-metadata': metadata({ filename: name }), ...headers },
    ...(body && { body }),
  })
const locationOf = ({ headers }: { headers: globalThis.Headers }) => headers.get('location') as `/${string}`
const patch = (
  at: `/${string}`,
  offset: number,
  body: string | Uint8Array,
  headers: Headers = {},
  as = ada.token,
  on: TestServer = api,
) =>
  on.call(`PATCH ${at}`, {
    ...(as && { as }),
    body,
    headers: { ...TUS, ...OCTETS, 'upload-offset': String(offset), ...headers },
  })
const head = (at: `/${string}`, as = ada.token, on: TestServer = api) =>
  on.call(`HEAD ${at}`, { ...(as && { as }), headers: TUS })
const text = async (bucket: string, name: string) =>
  (await api.call(`GET /api/storage/${bucket}/${name}`, { as: ada.token })).text

test('OPTIONS says what the server can do, also to a browser', async () => {
  const { status, headers } = await api.call('OPTIONS /api/storage/tus/open', {
    headers: { origin: 'https://app.example', 'access-control-request-method': 'PATCH' },
  })
  assert.equal(status, 204)
  assert.equal(headers.get('tus-version'), '1.0.0')
  assert.equal(headers.get('tus-extension'), 'creation,creation-with-upload,expiration,termination,checksum')
  assert.equal(headers.get('tus-max-size'), String(50 * 2 ** 20))
  assert.match(headers.get('tus-checksum-algorithm') ?? '', /\bsha1\b/)
  for (const name of ['Tus-Resumable', 'Upload-Length', 'Upload-Offset', 'Upload-Metadata', 'Upload-Checksum'])
    assert.match(headers.get('access-control-allow-headers') ?? '', new RegExp(name))
  const made = await begin('open', 'cors.txt', 1, { headers: { origin: 'https://app.example' } })
  for (const name of ['Location', 'Upload-Offset', 'Upload-Length', 'Upload-Expires', 'Tus-Resumable'])
    assert.match(made.headers.get('access-control-expose-headers') ?? '', new RegExp(name))
})

test('an upload is created, goes on where it ended, and is a file with its last byte', async () => {
  for (const bucket of ['open', 'vault', 'ruled']) {
    const made = await begin(bucket, 'mine/a.txt', 11)
    assert.deepEqual([made.status, made.headers.get('tus-resumable')], [201, '1.0.0'], made.text)
    const at = locationOf(made)
    assert.ok(Date.parse(made.headers.get('upload-expires') ?? '') > Date.now() + 80_000_000)
    const first = await patch(at, 0, 'hello ')
    assert.deepEqual([first.status, first.headers.get('upload-offset')], [204, '6'])
    const { status, headers } = await head(at)
    assert.deepEqual([status, headers.get('upload-offset'), headers.get('upload-length')], [200, '6', '11'])
    assert.equal(headers.get('cache-control'), 'no-store')
    assert.equal(headers.get('upload-metadata'), metadata({ filename: 'mine/a.txt' }))
    assert.equal((await api.call(`GET /api/storage/${bucket}/mine/a.txt`, { as: ada.token })).status, 404)
    const wrong = await patch(at, 3, 'xxx')
    assert.deepEqual([wrong.status, wrong.headers.get('tus-resumable')], [409, '1.0.0'])
    // Another process knows where it goes on.
    assert.equal((await patch(at, 6, 'world', {}, ada.token, other)).headers.get('upload-offset'), '11')
    assert.equal(await text(bucket, 'mine/a.txt'), 'hello world')
    // A client that lost the answer is told that all is there, and may say it again.
    assert.equal((await head(at)).headers.get('upload-offset'), '11')
    assert.equal((await patch(at, 11, '')).status, 204)
    const listed = await api.call(`GET /api/storage/${bucket}?prefix=mine/a`, { as: ada.token })
    assert.deepEqual(
      [listed.body.items[0].userId, listed.body.items[0].contentType],
      [ada.user.id, 'text/plain; charset=utf-8'],
    )
  }
})

test('creation with upload, empty files, and names: name, else filename', async () => {
  const made = await begin('vault', 'x', 5, {
    headers: { ...OCTETS, 'upload-metadata': metadata({ filename: 'no', name: 'n/yes', filetype: 'image/webp' }) },
    body: 'whole',
  })
  assert.deepEqual([made.status, made.headers.get('upload-offset')], [201, '5'])
  const { headers, text } = await api.call('GET /api/storage/vault/n/yes', { as: ada.token })
  assert.deepEqual([headers.get('content-type'), text], ['image/webp', 'whole'])
  assert.equal((await begin('vault', 'empty.txt', 0)).status, 201)
  assert.equal((await api.call('GET /api/storage/vault/empty.txt', { as: ada.token })).text, '')
  for (const [headers, expected] of [
    [{ 'upload-metadata': '' }, 400],
    [{ 'upload-metadata': 'filename ***' }, 400],
    [{ 'upload-metadata': metadata({ filename: '../x' }) }, 400],
    [{ 'upload-length': '-1' }, 400],
    [{ 'upload-length': 'many' }, 400],
    [{ 'upload-defer-length': '1' }, 400],
    [{ 'upload-length': String(50 * 2 ** 20 + 1) }, 413],
    [{ 'tus-resumable': '0.2.2' }, 412],
  ] as const) {
    const answer = await begin('vault', 'x', 1, { headers })
    assert.equal(answer.status, expected, JSON.stringify(headers))
    assert.equal(answer.headers.get('tus-resumable'), '1.0.0')
    if (expected === 412) assert.equal(answer.headers.get('tus-version'), '1.0.0')
  }
})

test('a part with a wrong checksum counts for nothing', async () => {
  const at = locationOf(await begin('vault', 'sum.txt', 10))
  const sum = (algorithm: string, body: string) => `${algorithm} ${createHash(algorithm).update(body).digest('base64')}`
  assert.equal((await patch(at, 0, 'hello', { 'upload-checksum': sum('sha1', 'other') })).status, 460)
  assert.equal((await head(at)).headers.get('upload-offset'), '0')
  assert.equal((await patch(at, 0, 'hello', { 'upload-checksum': 'crc99 AAAA' })).status, 400)
  assert.equal((await patch(at, 0, 'hello', { 'upload-checksum': sum('sha1', 'hello') })).status, 204)
  assert.equal((await patch(at, 5, 'world', { 'upload-checksum': sum('sha256', 'world') })).status, 204)
  assert.equal(await text('vault', 'sum.txt'), 'helloworld')
})

test('an upload is given up by DELETE, by an override too, and expires', async () => {
  const at = locationOf(await begin('vault', 'gone.txt', 10))
  await patch(at, 0, 'hello')
  assert.equal((await api.call(`DELETE ${at}`, { as: ada.token, headers: TUS })).status, 204)
  assert.equal((await head(at)).status, 404)
  assert.equal((await patch(at, 5, 'x')).status, 404)
  await eventually(async () => {
    const [{ count }] = await api.sql('select count(*)::int as count from svc.upload_parts')
    assert.equal(Number(count), 0)
  })
  const by = locationOf(await begin('vault', 'by.txt', 5))
  const override = (method: string, headers: Headers = {}, body = '') =>
    api.call(`POST ${by}`, {
      as: ada.token,
      headers: { ...TUS, 'x-http-method-override': method, ...headers },
      ...(body && { body }),
    })
  assert.equal((await override('PATCH', { ...OCTETS, 'upload-offset': '0' }, 'abc')).headers.get('upload-offset'), '3')
  assert.equal((await override('DELETE')).status, 204)
  assert.equal((await override('GET')).status, 405)
  const late = locationOf(await begin('vault', 'late.txt', 5))
  await api.sql(`update svc.uploads set expires_at = now() - interval '1 second' where name = 'late.txt'`)
  assert.equal((await head(late)).status, 410)
  assert.equal((await patch(late, 0, 'hello')).status, 410)
})

test('each request is judged by the identity that began, and rights again at the end', async () => {
  const at = locationOf(await begin('vault', 'mine.txt', 5))
  for (const as of [bob.token, 'admin']) {
    assert.equal((await head(at, as)).status, 404)
    assert.equal((await patch(at, 0, 'hello', {}, as)).status, 404)
  }
  assert.equal((await api.call(`DELETE ${at}`, { as: bob.token, headers: TUS })).status, 404)
  assert.equal((await begin('vault', 'v.txt', 5, { as: '' })).status, 401)
  assert.equal((await begin('ruled', 'not-mine.txt', 5)).status, 403)
  assert.equal((await begin('ruled', 'mine/x.txt', 5, { as: '' })).status, 403)
  const ruled = locationOf(await begin('ruled', 'mine/end.txt', 10))
  assert.equal((await patch(ruled, 0, 'hello')).status, 204)
  await api.sql('alter policy own on svc.objects using (false)')
  assert.equal((await patch(ruled, 5, 'world')).status, 403)
  await api.sql(`alter policy own on svc.objects using (owner = svc.uid() and name like 'mine/%')`)
  assert.equal((await patch(ruled, 5, 'world')).status, 204)
  assert.equal(await text('ruled', 'mine/end.txt'), 'helloworld')
  // What another took meanwhile stays theirs.
  const raced = locationOf(await begin('open', 'raced.txt', 5))
  const { status } = await api.call('PUT /api/storage/open/raced.txt', { as: bob.token, body: 'bob' })
  assert.equal(status, 201)
  assert.equal((await patch(raced, 0, 'hello')).status, 403)
  assert.equal(await text('open', 'raced.txt'), 'bob')
})

test('tus-js-client, as it is, uploads in chunks and goes on after it was interrupted', async () => {
  const content = randomBytes(20 * 2 ** 20)
  const options = (name: string) => ({
    endpoint: `${api.url}/api/storage/tus/vault`,
    headers: { authorization: `Bearer ${ada.token}` },
    metadata: { filename: name, filetype: 'application/octet-stream' },
    retryDelays: [0, 100, 200],
  })
  const run = (name: string, more: object) =>
    new Promise<Upload>((resolve, reject) => {
      const upload = new Upload(content, {
        ...options(name),
        ...more,
        onError: reject,
        onSuccess: () => resolve(upload),
      })
      upload.start()
    })
  const hash = createHash('sha256').update(content).digest('hex')
  const stored = async (name: string) => {
    const { headers } = await api.call(`HEAD /api/storage/vault/${name}`, { as: ada.token })
    return headers.get('etag')
  }
  await run('whole.bin', {})
  await run('chunks.bin', { chunkSize: 3_000_000 })
  await run('with-creation.bin', { uploadDataDuringCreation: true })
  for (const name of ['whole.bin', 'chunks.bin', 'with-creation.bin']) assert.equal(await stored(name), `"${hash}"`)
  // Interrupted, then gone on with by another client on another process.
  const url = await new Promise<string>((resolve, reject) => {
    const upload = new Upload(content, {
      ...options('resumed.bin'),
      chunkSize: 4_000_000,
      onError: reject,
      onChunkComplete: (_size, accepted) => {
        if (accepted < 8_000_000) return
        upload.abort().then(() => resolve(upload.url ?? ''), reject)
      },
    })
    upload.start()
  })
  await run('resumed.bin', { uploadUrl: url.replace(api.url, other.url), endpoint: null })
  assert.equal(await stored('resumed.bin'), `"${hash}"`)
})
