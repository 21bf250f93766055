import assert from 'node:assert/strict'
import { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { eventually } from '../../test/kit/eventually.ts'
import { parseRaw, route, sendRaw, serve } from '../../test/kit/http.ts'
import { AppError, badRequest } from '../core/errors.ts'
import { json, jsonText, noContent } from './route.ts'

/** Megabytes of characters of four bytes, which are two in JavaScript and must not be parted. */
const large = (shift: number): string => `"${'x'.repeat(shift)}${'🦒'.repeat(1_000_000)}"`

const api = await serve([
  route('GET /health', { auth: 'none', handle: () => jsonText(200, '{"status":"ok"}') }),
  route('GET /api/things/{id}', {
    auth: 'none',
    handle: async ({ params, rawParams, query }) => json(200, { params, rawParams, query }),
  }),
  route('GET /files/{name...}', { auth: 'none', handle: async ({ params }) => json(200, params) }),
  route('POST /api/invites/{token}/accept', { auth: 'none', bodyKind: 'none', handle: () => json(200, {}) }),
  route('GET /api/auth/me', { auth: 'none', handle: () => json(200, {}) }),
  route('DELETE /api/admin/thing/{id}', { auth: 'admin', audit: 'thing.delete', handle: async () => noContent }),
  route('GET /boom', {
    auth: 'none',
    handle: async () => {
      throw new Error('password=hunter2 at /etc/secret', { cause: new Error('deeper') })
    },
  }),
  route('GET /boom-sync', {
    auth: 'none',
    handle: () => {
      throw new TypeError('x is not a function')
    },
  }),
  route('GET /bad-header', { auth: 'none', handle: () => ({ status: 200, headers: { 'X-A': 'a\r\nb' }, body: {} }) }),
  route('GET /bigint', { auth: 'none', handle: () => json(200, { n: 1n }) }),
  route('GET /echo', {
    auth: 'none',
    handle: async ({ query }) => {
      await new Promise(setImmediate)
      throw badRequest(`no such thing: ${query['marker']}`)
    },
  }),
  route('GET /oauth', {
    auth: 'user',
    errorBody: (error) => ({ error: 'invalid_request', error_description: error.message }),
    handle: async () => json(200, {}),
  }),
  route('GET /own-headers', {
    auth: 'none',
    handle: () => ({
      status: 200,
      content: 'hällo',
      headers: { 'content-type': 'text/plain', 'referrer-policy': 'no-referrer', Vary: 'Accept' },
    }),
  }),
  route('GET /large/{shift}', { auth: 'none', handle: ({ params }) => jsonText(200, large(Number(params['shift']))) }),
  route('GET /conflict', {
    auth: 'none',
    handle: () => {
      throw new AppError('conflict', 'taken', { data: { k: { code: 'c', message: 'm' } }, headers: { 'X-Why': 'k' } })
    },
  }),
])

const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
  fetch(`${api.url}${path}`, { headers, method })

test('every answer carries the same protective headers and a request id', async () => {
  for (const path of ['/health', '/nowhere', '/boom']) {
    const { headers } = await get(path)
    assert.equal(headers.get('x-content-type-options'), 'nosniff')
    assert.equal(headers.get('x-frame-options'), 'DENY')
    assert.equal(headers.get('referrer-policy'), 'strict-origin-when-cross-origin')
    assert.equal(headers.get('permissions-policy'), 'camera=(), microphone=(), geolocation=()')
    assert.equal(headers.get('access-control-allow-origin'), '*')
    assert.equal(headers.get('content-type'), 'application/json')
    assert.equal(headers.get('strict-transport-security'), null)
    assert.equal(headers.get('cache-control'), null)
    assert.match(headers.get('x-request-id') ?? '', /^[0-9a-f]{18}-[0-9a-z]+$/)
  }
})

test('the head of an answer without headers of its own is our text, and node makes none', async (t) => {
  const writeHead = t.mock.method(ServerResponse.prototype, 'writeHead')
  const plain = await fetch(`${api.url}/health`)
  assert.deepEqual([plain.status, await plain.json()], [200, { status: 'ok' }])
  // If this is 1, the property that wire/node-internals.ts sets has gone or means something else.
  assert.equal(writeHead.mock.callCount(), 0)
  assert.equal(await (await fetch(`${api.url}/own-headers`)).text(), 'hällo')
  assert.equal(writeHead.mock.callCount(), 1)
})

test('a harmless request id of the caller is kept, any other is replaced', async () => {
  assert.equal((await get('/health', { 'x-request-id': 'trace_7-B' })).headers.get('x-request-id'), 'trace_7-B')
  for (const bad of ['a b', 'x'.repeat(65), '<i>']) {
    assert.match(
      (await get('/health', { 'x-request-id': bad })).headers.get('x-request-id') ?? '',
      /^[0-9a-f]{18}-[0-9a-z]+$/,
    )
  }
})

test('answers about accounts and administration are never stored', async () => {
  for (const path of ['/api/auth/me', '/api/auth/nothing', '/api/admin/thing/1']) {
    assert.equal((await get(path)).headers.get('cache-control'), 'no-store')
  }
})

test('HSTS is sent when the public address is https', async () => {
  const secure = await serve([], { publicBaseUrl: 'https://api.x.test' })
  assert.match((await fetch(secure.url)).headers.get('strict-transport-security') ?? '', /^max-age=\d+$/)
})

test('unknown paths are 404, known paths with another method 405 with Allow', async () => {
  const missing = await get('/nowhere')
  assert.equal(missing.status, 404)
  assert.deepEqual(await missing.json(), { code: 404, error: 'not_found', message: 'not found' })
  const wrong = await get('/health', {}, 'POST')
  assert.equal(wrong.status, 405)
  assert.equal(wrong.headers.get('allow'), 'GET, HEAD, OPTIONS')
  assert.deepEqual(await wrong.json(), { code: 405, error: 'method_not_allowed', message: 'method not allowed' })
})

test('HEAD has the headers of GET and no body', async () => {
  const text = await sendRaw(api.port, 'HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  const { status, headers, body } = parseRaw(text)
  assert.equal(status, 200)
  assert.equal(headers.get('content-length'), '15')
  assert.equal(body, '')
})

test('a preflight is answered 204 with what is allowed, never with credentials', async () => {
  const answer = await fetch(`${api.url}/api/things/1`, {
    method: 'OPTIONS',
    headers: { origin: 'https://a.test', 'access-control-request-method': 'PATCH' },
  })
  assert.equal(answer.status, 204)
  assert.equal(answer.headers.get('access-control-allow-origin'), '*')
  assert.equal(answer.headers.get('access-control-allow-methods'), 'GET, POST, PUT, PATCH, DELETE, OPTIONS')
  assert.equal(
    answer.headers.get('access-control-allow-headers'),
    'Content-Type, Authorization, X-Request-Id, X-Timing, Last-Event-ID, X-Notify-Table, X-Notify-Action, Dry-Run, Idempotency-Key, Svc-Position, Range, If-Match, If-None-Match, If-Modified-Since, ' +
      'Tus-Resumable, Upload-Length, Upload-Offset, Upload-Metadata, Upload-Checksum, X-HTTP-Method-Override, X-Requested-With, MCP-Protocol-Version, Mcp-Method, Mcp-Name',
  )
  assert.equal(answer.headers.get('access-control-max-age'), '86400')
  assert.equal(answer.headers.get('access-control-allow-credentials'), null)
  assert.equal((await get('/nowhere', {}, 'OPTIONS')).status, 404)
})

test('a listed origin is echoed, another one gets nothing, and both vary by origin', async () => {
  const listed = await serve([route('GET /x', { auth: 'none', handle: () => json(200, {}) })], {
    corsOrigins: ['https://a.test'],
  })
  const from = (origin: string, method = 'GET') => fetch(`${listed.url}/x`, { method, headers: { origin } })
  const mine = await from('https://a.test')
  assert.equal(mine.headers.get('access-control-allow-origin'), 'https://a.test')
  assert.match(
    mine.headers.get('access-control-expose-headers') ?? '',
    /^X-Request-Id, Retry-After, ETag, Content-Range, Accept-Ranges, Content-Disposition, X-RateLimit-Limit/,
  )
  assert.equal(mine.headers.get('vary'), 'Origin')
  for (const method of ['GET', 'OPTIONS']) {
    const other = await from('https://a.test.evil.test', method)
    assert.equal(other.headers.get('access-control-allow-origin'), null)
    assert.equal(other.headers.get('access-control-allow-methods'), null)
    assert.equal(other.headers.get('vary'), 'Origin')
  }
})

test('a failure nobody meant is 500 `internal error`; its cause and stack are in the log under the request id', async () => {
  for (const path of ['/boom', '/boom-sync', '/bad-header', '/bigint']) {
    const answer = await get(path, { 'x-request-id': `id${path.slice(1)}` })
    assert.equal(answer.status, 500)
    assert.deepEqual(await answer.json(), { code: 500, error: 'internal', message: 'internal error' })
    const entry = api.observations.find(({ attrs }) => attrs?.['requestId'] === `id${path.slice(1)}`)
    assert.equal(entry?.level, 'error')
    assert.doesNotMatch(String(entry?.attrs?.['error']), /\.ts:\d/)
    assert.match(String(entry?.attrs?.['stack']), /Error.*\n\s+at /)
  }
  assert.match(JSON.stringify(api.observations), /hunter2.*deeper/)
})

test('an error keeps its data and headers', async () => {
  const answer = await get('/conflict')
  assert.equal(answer.headers.get('x-why'), 'k')
  assert.deepEqual(await answer.json(), {
    code: 409,
    error: 'conflict',
    message: 'taken',
    data: { k: { code: 'c', message: 'm' } },
  })
})

test('a route may prescribe the shape of its errors, also those of the guard', async () => {
  const answer = await get('/oauth')
  assert.equal(answer.status, 401)
  assert.deepEqual(await answer.json(), {
    error: 'invalid_request',
    error_description: 'missing or invalid authorization header',
  })
})

test('200 failing requests at once each hear about their own mistake', async () => {
  const markers = Array.from({ length: 200 }, (_, i) => `m${i}x`)
  const answers = await Promise.all(markers.map(async (marker) => (await get(`/echo?marker=${marker}`)).json()))
  assert.deepEqual(
    answers,
    markers.map((marker) => ({ code: 400, error: 'validation_failed', message: `no such thing: ${marker}` })),
  )
})

test('headers of a handler replace the common ones; Vary is joined', async () => {
  const answer = await get('/own-headers')
  assert.equal(answer.headers.get('content-type'), 'text/plain')
  assert.equal(answer.headers.get('referrer-policy'), 'no-referrer')
  assert.equal(answer.headers.get('vary'), 'Accept')
  assert.equal(await answer.text(), 'hällo')
})

test('parameters are decoded once; the last value of a query parameter wins', async () => {
  const answer = await get('/api/things/a%2Fb%20%25?q=a+b%2Bc&x=1&x=2&flag&__proto__=1&=empty')
  const body = (await answer.json()) as { query: Record<string, string> }
  assert.deepEqual(body, {
    params: { id: 'a/b %' },
    rawParams: { id: 'a%2Fb%20%25' },
    query: JSON.parse('{"q":"a b+c","x":"2","flag":"","__proto__":"1","":"empty"}'),
  })
})

test('what cannot be decoded is 400, what climbs or strays is 404', async () => {
  const status = async (target: string) =>
    parseRaw(await sendRaw(api.port, `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)).status
  for (const target of [
    '/api/things/%ff',
    '/api/things/%',
    '/api/things/a%00b',
    '/api/things/1?q=%ff',
    '/api/things/1?q=%',
    '/api/things/1?q=%00',
    '/api/things/1?%ff=1',
    '/api/things/\xe4',
    '/api/things/1?q=\xe4',
  ]) {
    assert.equal(await status(target), 400, target)
  }
  for (const target of [
    '/api/things/..',
    '/api/things/%2e%2e',
    '/files/a/../b',
    '/files/%2E%2e/b',
    '/files/a/%2e',
    '/api/../health',
    '/health//',
    '/HEALTH',
    '/health;x=1',
    '//health',
    '/health%00',
    '/health%ff',
    'http://x',
    'xhealth',
  ]) {
    const got = await status(target)
    assert.ok(got === 404 || got === 400, `${target} → ${got}`)
  }
  assert.equal(await status('/files/a..b/...'), 200)
  assert.equal(await status('http://other.test/health?x=1'), 200)
})

test('an audited success is written down with its target; a refused one is not', async () => {
  await fetch(`${api.url}/api/admin/thing/7`, { method: 'DELETE' })
  assert.deepEqual(api.audited, [])
  const done = await fetch(`${api.url}/api/admin/thing/7`, {
    method: 'DELETE',
    headers: { authorization: 'Bearer operator', 'x-request-id': 'audited' },
  })
  assert.equal(done.status, 204)
  assert.deepEqual(
    api.audited.map(({ action, target, ip, requestId }) => ({ action, target, ip, requestId })),
    [{ action: 'thing.delete', target: '7', ip: '127.0.0.1', requestId: 'audited' }],
  )
})

test('the access log names the route, hides tokens and knows the caller', async () => {
  await get('/api/things/9?token=s3cret&x=1&%74oken=s3cret&refreshToken=s3cret&sig=s3cret', {
    'x-request-id': 'logged',
  })
  await eventually(async () => assert.ok(api.requests.some(({ requestId }) => requestId === 'logged')))
  const line = api.requests.find(({ requestId }) => requestId === 'logged')
  assert.equal(line?.route, '/api/things/{id}')
  assert.equal(line?.path(), '/api/things/9?token=***&x=***&***&refreshToken=***&sig=***')
  assert.equal(line?.status, 200)
  assert.equal(line?.ip, '127.0.0.1')
})

test('the access log hides tokens that stand in a path', async () => {
  const token = 'Yk3vX9-aQ_'.repeat(5)
  const paths = [`/api/invites/${token}/accept`, `/api/invites/${token}/accept/`, `/api/invites/${token}/acept?x=1`]
  for (const [i, path] of paths.entries()) {
    for (const method of ['GET', 'POST']) {
      const requestId = `path-${i}-${method}`
      await fetch(`${api.url}${path}`, { method, headers: { 'x-request-id': requestId } })
      const line = await eventually(() => {
        const found = api.requests.find((request) => request.requestId === requestId)
        assert.ok(found)
        return found
      })
      assert.equal(line.path(), path.replace(token, '***').replace('x=1', 'x=***'))
    }
  }
})

test('beyond the bound of requests at once the next are told to come back', async () => {
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const small = await serve(
    [
      route('GET /slow', {
        auth: 'none',
        handle: async () => {
          await held
          return json(200, {})
        },
      }),
    ],
    { maxConcurrent: 2 },
  )
  const first = [fetch(`${small.url}/slow`), fetch(`${small.url}/slow`)]
  await eventually(async () => {
    const answer = await fetch(`${small.url}/other`)
    assert.equal(answer.status, 503)
    assert.equal(answer.headers.get('retry-after'), '1')
    assert.deepEqual(await answer.json(), { code: 503, error: 'server_busy', message: 'server busy' })
  })
  release()
  assert.deepEqual(
    (await Promise.all(first)).map(({ status }) => status),
    [200, 200],
  )
  assert.equal((await fetch(`${small.url}/other`)).status, 404)
})

test('a large answer arrives whole, however its characters lie and however slowly it is read', async () => {
  for (const shift of [0, 1]) {
    const answer = await get(`/large/${shift}`)
    const text = await answer.text()
    assert.equal(answer.headers.get('content-length'), String(Buffer.byteLength(large(shift))))
    assert.ok(text === large(shift), 'it is another text')
  }
  const head = await get('/large/0', {}, 'HEAD')
  assert.equal(head.headers.get('content-length'), String(Buffer.byteLength(large(0))))
  assert.equal(await head.text(), '')

  // One connection: the answer behind it is not mixed with it.
  const both = await sendRaw(
    api.port,
    'GET /large/0 HTTP/1.1\r\nHost: a\r\n\r\nGET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
  )
  assert.ok(Buffer.from(both, 'latin1').toString().includes(large(0)))
  assert.ok(both.endsWith('{"status":"ok"}'))

  const leaving = new AbortController()
  const left = await fetch(`${api.url}/large/0`, { signal: leaving.signal })
  assert.equal(left.status, 200)
  leaving.abort()
  assert.equal((await get('/health')).status, 200)
})
