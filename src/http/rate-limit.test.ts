import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../test/kit/eventually.ts'
import { route, serve } from '../../test/kit/http.ts'
import { spawnServer, startServer, type TestServer } from '../../test/kit/kit.ts'
import { AppError } from '../core/errors.ts'
import { createLimiter } from './rate-limit.ts'
import { json } from './route.ts'

const login = (api: TestServer, path = '/api/admin/auth', headers: Record<string, string> = {}) =>
  api.call(`POST ${path as '/'}`, { json: { password: 'wrong' }, headers })

test('a limit counts over all servers of one database and tells how it stands', async () => {
  const config = { 'rate_limit.admin_login': '5/min' }
  const one = await startServer({ config })
  const two = await startServer({ config, on: one })
  const remaining: (string | null)[] = []
  for (const server of [one, two, one, two, one]) {
    const answer = await login(server)
    assert.equal(answer.status, 401)
    assert.equal(answer.headers.get('x-ratelimit-limit'), '5')
    remaining.push(answer.headers.get('x-ratelimit-remaining'))
  }
  assert.deepEqual(remaining, ['4', '3', '2', '1', '0'])
  for (const server of [one, two]) {
    const refused = await login(server)
    assert.equal(refused.status, 429)
    assert.deepEqual(refused.body, { code: 429, error: 'rate_limited', message: 'too many requests' })
    assert.equal(refused.headers.get('x-ratelimit-remaining'), '0')
    const retryAfter = Number(refused.headers.get('retry-after'))
    assert.ok(Number.isInteger(retryAfter) && retryAfter >= 1 && retryAfter <= 60)
    const reset = Number(refused.headers.get('x-ratelimit-reset'))
    assert.ok(Math.abs(reset - Date.now() / 1000 - retryAfter) < 30)
  }
  // No spelling, type or header makes a new subject.
  assert.equal((await login(one, '/api/admin/auth?x=1')).status, 429)
  assert.equal((await login(one, '/api/admin/auth', { 'x-forwarded-for': '9.9.9.9' })).status, 429)
  assert.equal(
    (await one.call('POST /api/admin/auth', { body: 'x', headers: { 'content-type': 'text/plain' } })).status,
    429,
  )
})

test('of 50 requests at once over two processes exactly the allowed number passes', async () => {
  const config = { 'rate_limit.admin_login': '7/hour' }
  const one = await startServer({ config })
  const two = await spawnServer({ config, on: one })
  const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => login(i % 2 ? one : two)))
  assert.equal(answers.filter(({ status }) => status === 401).length, 7)
  assert.equal(answers.filter(({ status }) => status === 429).length, 43)
})

test('a window that ended begins anew with the next request', async () => {
  const api = await startServer({ config: { 'rate_limit.admin_login': '1/hour' } })
  assert.equal((await login(api)).status, 401)
  const other = await startServer({ config: { 'rate_limit.admin_login': '1/hour' }, on: api })
  assert.equal((await login(other)).status, 429)
  await api.sql(`update svc.rate_counters set ends_at = now() - interval '1 second'`)
  const third = await startServer({ config: { 'rate_limit.admin_login': '1/hour' }, on: api })
  assert.equal((await login(third)).status, 401)
})

test('when nobody can count, nobody passes', async () => {
  const api = await startServer({ config: { 'rate_limit.admin_login': '5/min' } })
  await api.sql('drop table svc.rate_counters')
  const answer = await login(api)
  assert.equal(answer.status, 503)
  assert.equal(answer.headers.get('retry-after'), '1')
  assert.deepEqual(answer.body, { code: 503, error: 'unavailable', message: 'rate limit unavailable' })
})

test('a subject known to be over its limit costs no query until its window ends', async () => {
  let queries = 0
  const limiter = createLimiter({
    counters: { add: async () => ({ count: ++queries, secondsLeft: queries > 2 ? 60 : 0.1, resetAt: 0 }) },
  })
  const take = (max = 2) => limiter.takeToken('login', '192.0.2.1', { max, seconds: 60 })
  assert.equal((await take()).allowed, true)
  assert.equal((await take()).allowed, true)
  assert.equal((await take()).allowed, false)
  assert.equal(queries, 2)
  await eventually(async () => {
    await take()
    assert.equal(queries, 3)
  })
  for (let i = 0; i < 10; i++) assert.equal((await take()).retryAfter, 60)
  assert.equal(queries, 3)
  assert.equal((await take(10)).allowed, true, 'a raised limit is asked about again')
})

test('an error of the database that is already 503 is passed on', async () => {
  const down = new AppError('unavailable', 'database unavailable')
  const limiter = createLimiter({ counters: { add: () => Promise.reject(down) } })
  await assert.rejects(limiter.takeToken('a', 'b', { max: 1, seconds: 1 }), down)
})

const data = route('GET /data', { auth: 'optional', access: 'read', limit: 'api', handle: async () => json(200, {}) })
const as = (bearer: string) => ({ headers: { authorization: `Bearer ${bearer}` } })

test('data routes count users and keys by themselves, strangers by address, admins not at all', async () => {
  const api = await serve([data], {
    rateLimits: { api: { max: 2, seconds: 60 }, api_anonymous: { max: 1, seconds: 60 } },
  })
  const statuses = async (bearer?: string) => {
    const got: number[] = []
    for (let i = 0; i < 3; i++) got.push((await fetch(`${api.url}/data`, bearer ? as(bearer) : {})).status)
    return got
  }
  assert.deepEqual(await statuses('ana'), [200, 200, 429])
  assert.deepEqual(await statuses('readonly'), [200, 200, 429])
  assert.deepEqual(await statuses(), [200, 429, 429])
  assert.deepEqual(await statuses('operator'), [200, 200, 200])
})

test('a limit that is off sends no headers; an unknown one refuses to start', async () => {
  const api = await serve([data], { rateLimits: { api: null, api_anonymous: null } })
  assert.equal((await fetch(`${api.url}/data`)).headers.get('x-ratelimit-limit'), null)
  await assert.rejects(serve([data], { rateLimits: {} }), /unknown rate limit: api/)
})

test('every answer to the key of an app tells how the limit of the app stands', async () => {
  const api = await serve([data, route('POST /data', { auth: 'user', handle: async () => json(200, {}) })], {
    rateLimits: { api: null },
    appLimit: (appId) => (appId === 'app-1' ? { max: 2, seconds: 1 } : null),
  })
  const first = await fetch(`${api.url}/data`, as('app'))
  assert.equal(first.status, 200)
  assert.equal(first.headers.get('x-app-ratelimit-limit'), '2')
  assert.equal(first.headers.get('x-app-ratelimit-remaining'), '1')
  const forbidden = await fetch(`${api.url}/data`, { method: 'POST', ...as('app') })
  assert.equal(forbidden.status, 403)
  assert.equal(forbidden.headers.get('x-app-ratelimit-remaining'), '0')
  const refused = await fetch(`${api.url}/data`, as('app'))
  assert.equal(refused.status, 429)
  assert.deepEqual(await refused.json(), { code: 429, error: 'app_rate_limited', message: 'app rate limit exceeded' })
  assert.equal(refused.headers.get('retry-after'), '1')
  assert.equal((await fetch(`${api.url}/data`, as('readwrite'))).headers.get('x-app-ratelimit-limit'), null)
})
