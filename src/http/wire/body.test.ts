import assert from 'node:assert/strict'
import { request } from 'node:http'
import { connect } from 'node:net'
import { test } from 'node:test'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { eventually } from '../../../test/kit/eventually.ts'
import { parseRaw, route, sendRaw, serve } from '../../../test/kit/http.ts'
import { notFound } from '../../core/errors.ts'
import * as t from '../../core/json-type.ts'
import { json } from '../route.ts'

let handled = 0
const api = await serve([
  route('POST /json', {
    auth: 'none',
    handle: async ({ body, bodyText }) => {
      handled++
      return json(200, { body, bodyText })
    },
  }),
  route('POST /named', {
    auth: 'none',
    body: t.object({ name: t.string() }),
    handle: async ({ body: { name } }) => json(200, { name, polluted: ({} as Record<string, unknown>)['polluted'] }),
  }),
  route('POST /form', {
    auth: 'none',
    bodyKind: 'form',
    handle: async ({ body, repeated }) => json(200, { body, repeated: [...repeated] }),
  }),
  route('POST /raw', {
    auth: 'none',
    bodyKind: 'raw',
    handle: async ({ raw, headers }) => {
      if (headers['x-refuse']) throw notFound('bucket not found')
      let size = 0
      for await (const chunk of raw.request) size += (chunk as Buffer).length
      return json(200, { size })
    },
  }),
  route('POST /small', { auth: 'none', bodyLimit: 10, handle: async () => json(200, {}) }),
  route('POST /private', { auth: 'user', handle: async () => json(200, {}) }),
  route('DELETE /none', { auth: 'none', handle: async ({ body }) => json(200, body) }),
])

const post = async (path: string, body: string | Uint8Array, type = 'application/json', more = {}) => {
  const answer = await fetch(`${api.url}${path}`, { method: 'POST', body, headers: { 'content-type': type, ...more } })
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
}
const refused = (code: number, error: string, message: string) => ({ status: code, body: { code, error, message } })

test('a JSON body arrives parsed and as the text it was', async () => {
  const text = '{"a": 1.0, "b": "ü", "c": 12345678901234567890}'
  const { body } = await post('/json', text, 'Application/JSON; charset=UTF-8')
  assert.equal(body['bodyText'], text)
})

test('no body is an empty object', async () => {
  const answer = await fetch(`${api.url}/json`, { method: 'POST' })
  assert.deepEqual(await answer.json(), { body: {}, bodyText: '' })
})

test('malformed JSON is 400 and reaches no handler', async () => {
  const before = handled
  const notUtf8 = Buffer.from([0x22, 0xff, 0x22])
  for (const text of ['{"title":', ' ', '{"a":1}}', "{'a':1}", 'NaN', '{"a":1,}', '\ufeff{}', notUtf8]) {
    assert.deepEqual(await post('/json', text), refused(400, 'invalid_body', 'invalid JSON body'), String(text))
  }
  assert.equal(handled, before)
})

test('100 levels are taken, 101 or 100 000 are 400 at once; brackets in strings are no levels', async () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  assert.equal((await post('/json', nested(100))).status, 200)
  assert.deepEqual(await post('/json', nested(101)), refused(400, 'invalid_body', 'invalid JSON body'))
  assert.equal((await post('/json', JSON.stringify(`\\"${'['.repeat(500)}`))).status, 200)
  const big = await serve([route('POST /json', { auth: 'none', handle: async () => json(200, {}) })], {
    bodyLimit: 1024 * 1024,
  })
  const answer = await fetch(`${big.url}/json`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`,
  })
  assert.equal(answer.status, 400)
})

test('another content type is 415, also for a body that would parse', async () => {
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/jsonp',
    'application/json; charset=latin1',
    '',
  ]) {
    assert.deepEqual(
      await post('/json', '{}', type),
      refused(415, 'unsupported_media_type', 'content type must be application/json'),
      type,
    )
  }
})

test('compressed bodies are refused unread', async () => {
  const bomb = gzipSync(Buffer.alloc(1024 * 1024))
  const more = (encoding: string) => ({ 'content-encoding': encoding })
  const expected = refused(415, 'unsupported_media_type', 'content encoding is not supported')
  assert.deepEqual(await post('/json', bomb, 'application/json', more('gzip')), expected)
  assert.deepEqual(await post('/json', brotliCompressSync('{}'), 'application/json', more('br')), expected)
  assert.deepEqual(await post('/raw', bomb, 'application/json', more('deflate')), expected)
  assert.equal((await post('/json', '{}', 'application/json', more('identity'))).status, 200)
})

test('__proto__ never becomes a prototype, however it is spelled', async () => {
  for (const key of ['__proto__', '\\u005f_proto__', '__pr\\u006Fto__']) {
    const { body } = await post(
      '/json',
      `{"x":{"${key}":{"polluted":1}},"${key}":{"polluted":1},"list":[{"${key}":1}]}`,
    )
    assert.deepEqual(body['body'], { x: {}, list: [{}] }, key)
  }
  const named = await post(
    '/named',
    '{"name":"a","constructor":{"prototype":{"polluted":1}},"__proto__":{"polluted":1}}',
  )
  assert.deepEqual(named.body, { name: 'a' })
  assert.deepEqual(
    await post('/named', '{"__proto__":{"name":"inherited"}}'),
    refused(400, 'validation_failed', 'name is required'),
  )
})

test('type confusion in place of an object is 400', async () => {
  for (const text of ['[]', 'null', '1', '"name"', 'true']) {
    assert.deepEqual(await post('/named', text), refused(400, 'invalid_body', 'invalid JSON body'), text)
  }
})

test('a form arrives as strings and says which names were repeated', async () => {
  const type = 'application/x-www-form-urlencoded'
  assert.deepEqual((await post('/form', 'a=1&b=x+y%2B&a=2&__proto__=p', type)).body, {
    body: JSON.parse('{"a":"2","b":"x y+","__proto__":"p"}'),
    repeated: ['a'],
  })
  assert.deepEqual(await post('/form', '{}'), refused(415, 'unsupported_media_type', `content type must be ${type}`))
  assert.deepEqual(await post('/form', 'a=%ff', type), refused(400, 'bad_request', 'invalid percent-encoding in form'))
  assert.deepEqual(await post('/form', 'a=%00', type), refused(400, 'bad_request', 'form must not contain NUL'))
})

test('a body above the limit is 413, announced or not', async () => {
  const large = 'x'.repeat(65 * 1024)
  assert.deepEqual(await post('/json', large), refused(413, 'payload_too_large', 'request body too large'))
  assert.deepEqual(await post('/small', '{"a":123456}'), refused(413, 'payload_too_large', 'request body too large'))
  const head = 'POST /json HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n'
  const chunked = parseRaw(await sendRaw(api.port, head, `${large.length.toString(16)}\r\n${large}\r\n`))
  assert.equal(chunked.status, 413)
  assert.equal(chunked.headers.get('connection'), 'close')
})

test('a gigabyte is refused as soon as the limit is passed, without keeping it', async () => {
  const before = process.memoryUsage().rss
  const chunk = Buffer.alloc(256 * 1024, 'x')
  for (const [path, framing] of [
    ['/json', 'Content-Length: 1073741824'],
    ['/json', 'Transfer-Encoding: chunked'],
    ['/private', 'Content-Length: 1073741824'],
    ['/none-such', 'Transfer-Encoding: chunked'],
  ] as const) {
    const { answer, sent } = await pour(path, framing, chunk)
    assert.ok([413, 401, 404].includes(parseRaw(answer).status), `${path}: ${answer.slice(0, 40)}`)
    assert.ok(sent < 256 * 1024 * 1024, `${path}: ${sent} bytes were taken`)
  }
  assert.ok(process.memoryUsage().rss - before < 64 * 1024 * 1024)
})

/** Sends until the server closes or a gigabyte is through. */
function pour(path: string, framing: string, chunk: Buffer): Promise<{ answer: string; sent: number }> {
  return new Promise((resolve) => {
    const socket = connect(api.port, '127.0.0.1')
    const framed = framing.startsWith('T')
      ? Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n')])
      : chunk
    let answer = ''
    let sent = 0
    const push = (): void => {
      while (!socket.destroyed && sent < 2 ** 30) {
        sent += chunk.length
        if (!socket.write(framed)) return
      }
    }
    socket.on('data', (data) => (answer += data.toString('latin1')))
    socket.on('drain', () => setImmediate(push))
    socket.on('error', () => undefined)
    socket.on('close', () => resolve({ answer, sent }))
    socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`)
    push()
  })
}

test('a client that asks first is told to go on only when its body is wanted', async () => {
  const ask = (path: string, length: number, headers = {}) =>
    new Promise<{ continued: boolean; status: number }>((resolve, reject) => {
      let continued = false
      const asked = request(
        `${api.url}${path}`,
        {
          method: 'POST',
          headers: { expect: '100-continue', 'content-type': 'application/json', 'content-length': length, ...headers },
        },
        (answer) => {
          answer.resume()
          resolve({ continued, status: answer.statusCode ?? 0 })
          if (!continued) asked.destroy()
        },
      )
      asked.on('continue', () => {
        continued = true
        asked.end('{}'.padStart(length))
      })
      asked.on('error', reject)
      asked.flushHeaders()
    })
  assert.deepEqual(await ask('/json', 10), { continued: true, status: 200 })
  assert.deepEqual(await ask('/json', 1_000_000), { continued: false, status: 413 })
  assert.deepEqual(await ask('/private', 10), { continued: false, status: 401 })
  assert.deepEqual(await ask('/raw', 10), { continued: true, status: 200 })
  assert.deepEqual(await ask('/raw', 10, { 'x-refuse': 'yes' }), { continued: false, status: 404 })
  assert.equal((await ask('/json', 10, { expect: 'the unexpected' })).status, 417)
})

test('a body where none is expected is ignored, and the connection goes on', async () => {
  const one = 'DELETE /none HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{"a":'
  const text = await sendRaw(api.port, one + one.replace('Host: x', 'Host: x\r\nConnection: close'))
  assert.equal(text.match(/HTTP\/1.1 200 OK/g)?.length, 2)
})

test('a client that leaves in the middle of its body costs nothing but a line in the log', async () => {
  const socket = connect(api.port, '127.0.0.1')
  const before = api.requests.length
  const head = 'POST /json HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n'
  socket.write(`${head}{"a"`, () => socket.destroy())
  await eventually(() => assert.equal(api.requests.length, before + 1))
  assert.equal((await post('/json', '{}')).status, 200)
})
