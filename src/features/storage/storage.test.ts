import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { test } from 'node:test'
import { startS3 } from '../../../test/fakes/s3-server.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

const sha256 = (bytes: string | Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const base = 'https://api.example.test'

/** The same promises, wherever the bytes are. */
for (const backend of ['local', 's3']) {
  const api = await startServer({
    config: { 'server.public_base_url': base, ...(backend === 's3' && (await startS3()).config) },
  })
  const ada = await api.signUp('ada@example.test')

  test(`${backend}: a file comes back as it was sent, with its type, version and date`, async () => {
    const stored = await upload(api, '/api/storage/pub', { content: 'hello', fileName: 'notes/hello.txt' })
    assert.equal(stored.status, 201)
    const { id, createdAt, updatedAt, ...rest } = stored.body
    assert.deepEqual(rest, {
      bucket: 'pub',
      name: 'hello.txt',
      size: 5,
      contentType: 'text/plain; charset=utf-8',
      userId: null,
      url: `${base}/api/storage/pub/hello.txt`,
    })
    assert.match(id, /^[0-9a-f-]{36}$/)
    assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    assert.equal(updatedAt, createdAt)

    const got = await api.call('GET /api/storage/pub/hello.txt')
    assert.equal(got.status, 200)
    assert.equal(got.text, 'hello')
    assert.equal(got.headers.get('content-type'), 'text/plain; charset=utf-8')
    assert.equal(got.headers.get('content-length'), '5')
    assert.equal(got.headers.get('etag'), `"${sha256('hello')}"`)
    assert.equal(got.headers.get('cache-control'), 'public, max-age=86400')
    assert.equal(got.headers.get('x-content-type-options'), 'nosniff')
    assert.equal(got.headers.get('content-security-policy'), 'sandbox')
    assert.equal(got.headers.get('content-disposition'), null)
    assert.ok(Date.parse(got.headers.get('last-modified') ?? '') <= Date.now())
  })

  test(`${backend}: the same name again overwrites: same id, same owner, new bytes`, async () => {
    const first = await upload(api, '/api/storage/pub', { as: ada.token, name: 'mine.txt', content: 'one' })
    const second = await upload(api, '/api/storage/pub', { as: 'admin', name: 'mine.txt', content: 'three' })
    assert.equal(second.status, 201)
    assert.equal(second.body.id, first.body.id)
    assert.equal(second.body.userId, ada.user.id)
    assert.equal(second.body.size, 5)
    assert.equal((await api.call('GET /api/storage/pub/mine.txt')).text, 'three')
  })

  test(`${backend}: a large file keeps every byte, and any part of it can be had`, async () => {
    const content = randomBytes(20 * 1024 * 1024 + 7)
    const stored = await upload(api, '/api/storage/pub', { name: 'large.bin', content })
    assert.equal(stored.body.size, content.length)
    const whole = await fetch(`${api.url}/api/storage/pub/large.bin`)
    assert.equal(sha256(new Uint8Array(await whole.arrayBuffer())), sha256(content))
    const ranges = [
      ['bytes=0-0', 0, 1],
      ['bytes=8388600-8388700', 8388600, 8388701],
      ['bytes=-5', content.length - 5, content.length],
      [`bytes=${content.length - 3}-${content.length + 99}`, content.length - 3, content.length],
    ] as const
    for (const [range, start, end] of ranges) {
      const part = await fetch(`${api.url}/api/storage/pub/large.bin`, { headers: { range } })
      assert.equal(part.status, 206, range)
      assert.equal(part.headers.get('content-range'), `bytes ${start}-${end - 1}/${content.length}`)
      assert.deepEqual(Buffer.from(await part.arrayBuffer()), content.subarray(start, end))
    }
  })

  test(`${backend}: ranges that cannot be are 416, ranges that make no sense give the whole`, async () => {
    await upload(api, '/api/storage/pub', { name: 'ten.txt', content: '0123456789' })
    await upload(api, '/api/storage/pub', { name: 'empty.txt', content: '' })
    const get = (range: string, name = 'ten.txt') => api.call(`GET /api/storage/pub/${name}`, { headers: { range } })
    for (const range of ['bytes=10-', 'bytes=999999999999-', 'bytes=-0']) {
      const { status, headers, body } = await get(range)
      assert.equal(status, 416, range)
      assert.equal(headers.get('content-range'), 'bytes */10')
      assert.deepEqual(body, { code: 416, error: 'range_not_satisfiable', message: 'range not satisfiable' })
    }
    assert.equal((await get('bytes=0-', 'empty.txt')).status, 416)
    assert.equal((await api.call('GET /api/storage/pub/empty.txt')).text, '')
    for (const range of ['bytes=5-2', 'bytes=a-b', 'items=0-1', 'bytes=0-1,3-4', `bytes=${'0-,'.repeat(1000)}0-`]) {
      const { status, text } = await get(range)
      assert.deepEqual([status, text], [200, '0123456789'], range.slice(0, 20))
    }
  })

  test(`${backend}: conditions are honoured for reads and deletes, and HEAD tells without sending`, async () => {
    await upload(api, '/api/storage/pub', { name: 'c.txt', content: 'one' })
    const at = '/api/storage/pub/c.txt'
    const etag = (await api.call(`HEAD ${at}`)).headers.get('etag') ?? ''
    const head = await api.call(`HEAD ${at}`, { headers: { range: 'bytes=0-0' } })
    assert.deepEqual([head.status, head.text, head.headers.get('content-length')], [200, '', '3'])
    const get = (headers: Record<string, string>) => api.call(`GET ${at}`, { headers })
    const same = await get({ 'if-none-match': etag })
    assert.deepEqual([same.status, same.text, same.headers.get('etag')], [304, '', etag])
    assert.equal((await get({ 'if-modified-since': new Date(Date.now() + 1000).toUTCString() })).status, 304)
    assert.equal((await get({ 'if-modified-since': 'Mon, 01 Jan 2001 00:00:00 GMT' })).status, 200)
    assert.equal((await get({ 'if-match': '"other"' })).status, 412)
    assert.equal((await get({ range: 'bytes=0-0', 'if-range': etag })).status, 206)
    assert.equal((await get({ range: 'bytes=0-0', 'if-range': '"other"' })).status, 200)
    assert.equal((await api.call(`DELETE ${at}`, { headers: { 'if-match': '"other"' } })).status, 412)
    assert.equal((await api.call(`DELETE ${at}`, { headers: { 'if-match': etag } })).status, 204)
    assert.deepEqual((await api.call(`GET ${at}`)).body, {
      code: 404,
      error: 'file_not_found',
      message: 'file not found',
    })
    assert.equal((await api.call(`DELETE ${at}`)).status, 404)
  })

  test(`${backend}: awkward names come back as they are, everywhere`, async () => {
    const names = [
      'a b+c%d.txt',
      'ü/見本/😀.txt',
      'x?y#z&=.txt',
      `it's "q".txt`,
      'sign',
      'deep/sign',
      'a;b,c.txt',
      '%2e%2e.txt',
    ]
    for (const name of names) {
      const stored = await upload(api, '/api/storage/awkward', { name, content: name })
      assert.deepEqual([stored.status, stored.body.name], [201, name])
      const path = stored.body.url.slice(base.length)
      assert.equal((await api.call(`GET ${path}` as 'GET /')).text, name)
      assert.equal(
        (
          await api.call(
            `GET ${path.replaceAll('/', '%2F').replace(/^%2Fapi%2Fstorage%2Fawkward%2F/, '/api/storage/awkward/')}` as 'GET /',
          )
        ).text,
        name,
      )
      const signed = await api.call(`POST ${path}/sign` as 'POST /')
      assert.equal((await api.call(`GET ${signed.body.url}` as 'GET /')).text, name)
    }
    const { body } = await api.call('GET /api/storage/awkward')
    assert.deepEqual(
      body.items.map(({ name }: { name: string }) => name),
      names.toSorted(),
    )
    for (const { url } of body.items) {
      assert.equal((await api.call(`DELETE ${url.slice(base.length)}` as 'DELETE /')).status, 204)
    }
    assert.deepEqual((await api.call('GET /api/storage/awkward')).body, { items: [], totalItems: 0 })
  })

  test(`${backend}: an upload that is broken off leaves nothing, and the server goes on`, async () => {
    // Those of before may go meanwhile.
    const [{ now }] = await api.sql('select clock_timestamp()::text as now')
    const { port } = new URL(api.url)
    const form = `--B\r\nContent-Disposition: form-data; name="file"; filename="cut.bin"\r\n\r\n`
    const head = `POST /api/storage/pub HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=B\r\nContent-Length: 30000000\r\n\r\n`
    for (const megabytes of [0, 1, 20]) {
      const socket = connect(Number(port), '127.0.0.1')
      socket.write(head + form)
      await new Promise((sent) => socket.write(Buffer.alloc(megabytes * 1024 * 1024), sent))
      socket.destroy()
    }
    assert.equal((await upload(api, '/api/storage/pub', { name: 'after.txt' })).status, 201)
    assert.equal((await api.call('GET /api/storage/pub/cut.bin')).status, 404)
    const [{ blobs }] = await api.sql('select count(*)::int as blobs from svc.blobs where created_at > $1', [now])
    assert.equal(Number(blobs), 1)
  })

  test(`${backend}: the bytes of what was replaced or deleted go, and nothing else does`, async () => {
    await upload(api, '/api/storage/gone', { name: 'a', content: 'first' })
    await upload(api, '/api/storage/gone', { name: 'a', content: 'second' })
    await upload(api, '/api/storage/gone', { name: 'b', content: 'deleted' })
    await api.call('DELETE /api/storage/gone/b')
    const [{ waiting }] = await api.sql(`select count(*)::int as waiting from svc.queue where kind = 'blobs.remove'`)
    assert.ok(waiting >= 2)
    await api.sql(`update svc.queue set run_at = now() where kind = 'blobs.remove'`)
    await eventually(async () => {
      const left = await api.sql(`select from svc.queue where kind = 'blobs.remove'`)
      assert.equal(left.length, 0)
    })
    const unused = await api.sql(
      `select from svc.blobs b where not exists (select from svc.objects o where o.blob_id = b.id)`,
    )
    assert.equal(unused.length, 0)
    assert.equal((await api.call('GET /api/storage/gone/a')).text, 'second')
  })
}
