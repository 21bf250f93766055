import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { parseRaw, sendRaw } from '../../../test/kit/http.ts'
import { eventually, startServer, storagePath } from '../../../test/kit/kit.ts'
import { parsed } from '../../../test/kit/parsed.ts'
import { upload } from '../../../test/kit/upload.ts'

const api = await startServer({ config: { 'storage.max_file_size': '1MB' } })
const port = Number(new URL(api.url).port)
/** The same, and soon tired of waiting. */
const hasty = await startServer({ on: api, config: { 'storage.upload_timeout': 2 } })
const hastyPort = Number(new URL(hasty.url).port)

const leftovers = () => {
  try {
    return readdirSync(join(storagePath, 'tmp'))
  } catch {
    return []
  }
}
const noneLeft = () => eventually(() => assert.deepEqual(leftovers(), []))
const blobCount = async () => (await api.sql('select count(*)::int as n from svc.blobs'))[0].n

const BAD_NAMES = [
  '../x',
  '/etc/passwd',
  'a/../../b',
  '.',
  '..',
  'a/./b',
  'a//b',
  'a/',
  '/',
  'C:\\x',
  '..\\x',
  'a\nb',
  'a\u0000b',
  'a\u007fb',
  'x'.repeat(1025),
  'ü'.repeat(513),
]

test('a name that climbs, or cannot be, is refused on every route', async () => {
  for (const name of BAD_NAMES) {
    const { status, body } = await upload(api, '/api/storage/pub', { name, fileName: 'x' })
    assert.equal(status, 400, JSON.stringify(name.slice(0, 20)))
    assert.match(body.message, /^(invalid object name: |invalid multipart form)/)
  }
  const paths = [
    '..%2fx',
    '%2e%2e/x',
    '%2e%2e%2fx',
    '..%5cx',
    '..',
    '.',
    'a//b',
    'a/',
    '%2fetc',
    'a%00b',
    'a%0ab',
    'x'.repeat(1025),
    'a/../../b',
    'C:%5Cx',
  ]
  for (const path of paths) {
    for (const line of [
      `GET /api/storage/pub/${path}`,
      `DELETE /api/storage/pub/${path}`,
      `POST /api/storage/pub/${path}/sign`,
    ]) {
      const head = `${line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`
      const { status } = parseRaw(await sendRaw(port, head))
      assert.ok([400, 404, 405].includes(status), `${line} answered ${status}`)
    }
  }
  await noneLeft()
})

test('names that other systems take for others are only names, and nothing is written beside the blobs', async () => {
  const names = ['Case.txt', 'case.txt', 'CON', 'a:b', '~/.ssh/id', '$HOME', '-rf', 'a/link', 'a/link/b', '...', '%00']
  for (const name of names) {
    assert.equal((await upload(api, '/api/storage/pairs', { name, content: name })).status, 201, name)
  }
  for (const name of names) {
    assert.equal((await api.call(`GET /api/storage/pairs/${encodeURIComponent(name)}`)).text, name)
  }
  const files = readdirSync(storagePath, { recursive: true, withFileTypes: true }).filter(
    (entry) => !entry.isDirectory(),
  )
  for (const { name } of files) assert.match(name, /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|probe-\d+)$/)
})

test('a bucket that cannot be is refused', async () => {
  for (const bucket of ['A', 'a.b', '_svc_sites', '_svcx', 'buckets', 'upload', 'x'.repeat(64), 'a%2Fb', 'ü']) {
    const { status, body } = await api.call(`GET /api/storage/${encodeURI(bucket)}` as 'GET /')
    assert.equal(status, 400, bucket)
    assert.match(body.message, /^invalid bucket name: /)
  }
})

test('a bucket that climbs leads nowhere: nobody else reads it, and nothing is written beside the root', async () => {
  assert.equal((await upload(api, '/api/storage/other', { name: 'x', content: 'of the other bucket' })).status, 201)
  const beside = () => readdirSync(dirname(storagePath)).sort()
  const before = beside()
  const form = '--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nclimbed\r\n--b--\r\n'
  const type = `Content-Type: multipart/form-data; boundary=b\r\nContent-Length: ${form.length}\r\n\r\n${form}`
  // Written by hand, because clients resolve dots before they send a path.
  for (const bucket of ['..', '%2e%2e', '.', 'pub/../other', 'pub%2f..%2fother', 'pub/%2e%2e/other', '..%5cother']) {
    for (const [line, rest] of [
      [`GET /api/storage/${bucket}`, '\r\n'],
      [`GET /api/storage/${bucket}/x`, '\r\n'],
      [`DELETE /api/storage/${bucket}/x`, '\r\n'],
      [`POST /api/storage/${bucket}`, type],
    ]) {
      const head = `${line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n`
      const { status } = parseRaw(await sendRaw(port, head + rest))
      assert.ok([400, 401, 404, 405].includes(status), `${line} answered ${status}`)
    }
  }
  assert.equal((await api.call('GET /api/storage/other/x')).text, 'of the other bucket')
  assert.deepEqual(beside(), before)
  await noneLeft()
})

test('no name or type of a file can add a header', async () => {
  const stored = await upload(api, '/api/storage/pub', {
    name: 'evil";filename="x.html',
    type: 'text/html\r\nX-Evil: 1',
    content: '<script>',
  })
  assert.equal(stored.status, 201)
  const { headers } = await api.call(`GET /api/storage/pub/${encodeURIComponent('evil";filename="x.html')}`)
  assert.equal(headers.get('x-evil'), null)
  assert.match(headers.get('content-disposition') ?? '', /^attachment; filename="[^"]*"; filename\*=UTF-8''[\w%.-]+$/)
})

test('documents that could run scripts are sent as attachments, in a sandbox', async () => {
  for (const [name, type] of [
    ['a.html', ''],
    ['a.svg', ''],
    ['a.xml', ''],
    ['a.js', ''],
    ['noext', 'text/html'],
    ['a.xhtml', ''],
    ['a.bin', ''],
  ] as const) {
    await upload(api, '/api/storage/pub', { name, type, content: '<svg xmlns="http://www.w3.org/2000/svg"/>' })
    const { headers } = await api.call(`GET /api/storage/pub/${name}`)
    assert.match(headers.get('content-disposition') ?? '', /^attachment/, name)
    assert.equal(headers.get('content-security-policy'), 'sandbox')
    assert.equal(headers.get('x-content-type-options'), 'nosniff')
  }
})

const CRLF = '\r\n'
const part = (disposition: string, content: string, more = '') =>
  `--B${CRLF}Content-Disposition: form-data; ${disposition}${CRLF}${more}${CRLF}${content}${CRLF}`
const file = part('name="file"; filename="f.txt"', 'data')
const end = `--B--${CRLF}`

const post = async (body: string, headers: Record<string, string> = {}) => {
  const { status, body: answer } = await api.call('POST /api/storage/forms', {
    body,
    headers: { 'content-type': 'multipart/form-data; boundary=B', ...headers },
  })
  return { status, message: answer.message as string }
}

test('forms that are broken, overloaded or not forms are 400 and leave nothing', async () => {
  const before = await blobCount()
  const invalid = 'invalid multipart form or file too large'
  const missing = 'missing "file" field in multipart form'
  const cases: [string, string, Record<string, string>?][] = [
    ['', invalid, { 'content-type': 'multipart/form-data' }],
    [file + end, invalid, { 'content-type': 'multipart/form-data; boundary=' }],
    [file + end, invalid, { 'content-type': 'application/json' }],
    [file + end, invalid, { 'content-type': 'multipart/mixed; boundary=B' }],
    [file + end, invalid, { 'content-type': 'multipart/form-data; boundary=other' }],
    ['--B\r\nContent-Dispo', invalid],
    [file.slice(0, -4), invalid],
    [file, invalid],
    [file + file + end, invalid],
    [part('name="name"', 'x.txt') + end, missing],
    [part('name="file"', 'not a file') + end, missing],
    [end, missing],
    [part('name=""', 'x') + file + end, invalid],
    [part('name=""; filename="x"', 'x') + file + end, invalid],
    [part('name="other"; filename="x"', 'x') + file + end, invalid],
    [part('name="n"', 'x').repeat(10_000) + file + end, invalid],
    [part('name="name"', 'n'.repeat(100_000)) + file + end, invalid],
    [part('name="name"', 'a') + part('name="name"', 'b') + file + end, invalid],
    [part('name="file"; filename="f.txt"', 'x', `X-Long: ${'h'.repeat(1_000_000)}\r\n`) + end, invalid],
    [part('name="file"; filename="f.txt"', 'x', 'Content-Type: multipart/mixed; boundary=C\r\n') + end, invalid],
    [part('name="file"; filename="f.txt"', 'x'.repeat(1024 * 1024 + 1)) + end, invalid],
    [part('name="file"; filename=""', 'x') + end, 'file name is required'],
    [file + part('name="n"', 'x').repeat(100) + end, invalid],
  ]
  for (const [i, [body, message, headers]] of cases.entries()) {
    assert.deepEqual(await post(body, headers), { status: 400, message }, `case ${i}`)
  }
  await noneLeft()
  assert.equal(await blobCount(), before)
})

test('file names made to keep a parser busy are read at once, and lies about the length are cut off', async () => {
  const busy = ['\\'.repeat(8_000), '";'.repeat(4_000), 'a'.repeat(8_000), `=?${'?'.repeat(8_000)}`, '%'.repeat(8_000)]
  for (const name of busy) {
    const { status } = await post(part(`name="file"; filename="${name}"; filename*=UTF-8''${name}`, 'x') + end)
    assert.equal(status, 400, name.slice(0, 9))
  }
  const before = await blobCount()
  const form = file + end
  const closing = (length: number) => head(length).replace('Host: x', 'Host: x\r\nConnection: close')
  // Shorter than it is: what follows is no request. Longer: the rest never comes.
  const short = parseRaw(await sendRaw(port, closing(form.length - 10) + form))
  assert.equal(short.status, 400)
  const long = parseRaw(await sendRaw(hastyPort, closing(form.length + 10) + form))
  assert.ok([400, 408, 504].includes(long.status), `${long.status}`)
  await noneLeft()
  assert.equal(await blobCount(), before)
})

test('the name may come after the file, and a file of exactly the limit is taken', async () => {
  const late = await post(file + part('name="name"', 'late/name.txt') + end)
  assert.equal(late.status, 201)
  assert.equal((await api.call('GET /api/storage/forms/late/name.txt')).text, 'data')
  const full = await post(part('name="file"; filename="full.bin"', 'x'.repeat(1024 * 1024)) + end)
  assert.equal(full.status, 201)
})

const head = (length: number, more = '') =>
  `POST /api/storage/forms HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=B\r\n${more}Content-Length: ${length}\r\n\r\n`

test('an upload that is broken off in the middle leaves nothing', async () => {
  const before = await blobCount()
  for (let i = 0; i < 5; i++) {
    const socket = connect(port, '127.0.0.1')
    socket.write(head(500_000) + part('name="file"; filename="cut.txt"', 'x'.repeat(200_000)).slice(0, -2))
    await eventually(() => assert.ok(leftovers().length > 0))
    socket.destroy()
    await noneLeft()
  }
  assert.equal((await api.call('GET /api/storage/forms/cut.txt')).status, 404)
  assert.equal(await blobCount(), before)
})

test('an upload that takes too long is ended with 504', async () => {
  const { status, body } = parseRaw(await sendRaw(hastyPort, head(500_000), file.slice(0, -2)))
  assert.equal(status, 504)
  assert.deepEqual(parsed(body), { code: 504, error: 'timeout', message: 'upload timed out' })
  await noneLeft()
})

test('an announced size beyond the limit is refused before a byte of it is read', async () => {
  const { status } = parseRaw(await sendRaw(port, head(10_000_000_000)))
  assert.equal(status, 400)
})

test('one address cannot take every place for uploads, and a form that is refused holds none', async () => {
  const busy = await startServer()
  const before = leftovers().length
  // With bytes behind it that are no request, so that the connection ends, perhaps before the form was read.
  const lying = head(file.length) + file + end
  for (let i = 0; i < 8; i++) {
    await Promise.all(Array.from({ length: 32 }, () => sendRaw(Number(new URL(busy.url).port), lying)))
  }
  const slow = Array.from({ length: 64 }, () => {
    const socket = connect(Number(new URL(busy.url).port), '127.0.0.1')
    socket.on('error', () => {})
    socket.write(head(500_000) + file.slice(0, -2))
    return socket
  })
  await eventually(() => assert.equal(leftovers().length, before + slow.length))
  const refused = await upload(busy, '/api/storage/pub', { name: 'late.txt' })
  assert.deepEqual(
    [refused.status, refused.body.message, refused.headers.get('retry-after')],
    [503, 'server busy', '1'],
  )
  for (const socket of slow) socket.destroy()
  await eventually(async () => {
    assert.equal((await upload(busy, '/api/storage/pub', { name: 'late.txt' })).status, 201)
  })
})

test('the addresses of one IPv6 network hold the places of one address', async () => {
  const busy = await startServer({ config: { 'server.trusted_proxies': ['127.0.0.1'] } })
  const busyPort = Number(new URL(busy.url).port)
  const from = (address: string) => `X-Forwarded-For: ${address}\r\n`
  const slow = Array.from({ length: 64 }, (_, i) => {
    const socket = connect(busyPort, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(head(500_000, from(`2001:db8:1:2::${i + 1}`)) + file.slice(0, -2))
    return socket
  })
  await eventually(() => assert.equal(leftovers().length, slow.length))
  const send = async (address: string) =>
    parseRaw(
      await sendRaw(busyPort, head(file.length + end.length, `Connection: close\r\n${from(address)}`), file + end),
    ).status
  assert.equal(await send('2001:db8:1:2:ffff::1'), 503)
  assert.equal(await send('2001:db8:1:3::1'), 201)
  for (const socket of slow) socket.destroy()
  await noneLeft()
})
