import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
const other = await startServer({ on: api })
const password = 'long enough password'
const login = (email: string, secret: string, server = api) =>
  server.call('POST /api/auth/login', { json: { email, password: secret } })

test('five hundred parallel guesses are counted, not checked', async () => {
  await api.signUp('a@x.test')
  await api.signUp('b@x.test')
  const guesses = await Promise.all(
    Array.from({ length: 500 }, (_, i) => login('a@x.test', `wrong password ${i}`, i % 2 ? api : other)),
  )
  const checked = guesses.filter(({ status }) => status === 401).length
  assert.ok(checked >= 10 && checked <= 20, `${checked} checked`)
  const refused = guesses.find(({ status }) => status === 429)
  assert.equal(refused?.body.message, 'too many failed attempts, try again later')
  assert.match(refused?.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
  // A busy server refuses before the check, which reveals nothing.
  assert.ok(guesses.every(({ status }) => status === 401 || status === 429 || status === 503))
  assert.equal((await login('a@x.test', password)).status, 429)
  assert.equal((await login('A@x.test ', password, other)).status, 429)
  assert.equal((await login('b@x.test', password)).status, 200)

  await api.sql(
    `update svc.login_failures set locked_until = now() - interval '1 second', window_start = now() - interval '1 hour'`,
  )
  assert.equal((await login('a@x.test', password)).status, 200)
  assert.deepEqual(await api.sql('select 1 from svc.login_failures'), [])
})

test('a success clears the count, and many right logins at once lock nobody', async () => {
  await api.signUp('c@x.test')
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 9; i++) assert.equal((await login('c@x.test', 'wrong password')).status, 401)
    assert.equal((await login('c@x.test', password)).status, 200)
  }
  const all = await Promise.all(Array.from({ length: 60 }, () => login('c@x.test', password)))
  assert.ok(all.every(({ status }) => status === 200))
})

test('unknown addresses are counted like known ones', async () => {
  for (let i = 0; i < 10; i++) assert.equal((await login('nobody@x.test', 'wrong password')).status, 401)
  assert.equal((await login('nobody@x.test', 'wrong password')).status, 429)
})

test('when more passwords wait than the queue holds, the rest is told to come back', async () => {
  const small = await startServer({
    on: api,
    config: { 'auth.hash_queue': 3, 'auth.hash_concurrency': 1, 'auth.argon2_memory': 19456, 'auth.argon2_time': 4 },
  })
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, i) =>
      small.call('POST /api/auth/register', { json: { email: `q${i}@x.test`, password } }),
    ),
  )
  const busy = answers.filter(({ status }) => status === 503)
  assert.ok(busy.length > 0 && busy.length < 30)
  for (const { body, headers } of busy) {
    assert.deepEqual(
      [body, headers.get('retry-after')],
      [{ code: 503, error: 'server_busy', message: 'server busy' }, '1'],
    )
  }
  assert.ok(answers.every(({ status }) => status === 201 || status === 503))
  const [{ count }] = await api.sql(`select count(*)::int as count from svc.users where email like 'q%'`)
  assert.equal(Number(count), 30 - busy.length)
})

test('known and unknown addresses cost the same work: both keep the only worker busy', async () => {
  const single = await startServer({
    on: api,
    config: { 'auth.hash_concurrency': 1, 'auth.hash_queue': 1, 'auth.login_backoff_failures': 1000 },
  })
  await single.signUp('timed@x.test')
  for (const email of ['timed@x.test', 'untimed@x.test']) {
    const answers = await Promise.all(Array.from({ length: 30 }, () => login(email, 'wrong password', single)))
    const count = (wanted: number) => answers.filter(({ status }) => status === wanted).length
    assert.ok(count(503) > 0, `${email} was answered without a hash`)
    assert.equal(count(401) + count(503), 30)
  }
})

test('the eleventh registration within the time is refused, whichever server it asks', async () => {
  const limited = { 'rate_limit.register': '10/hour' }
  const [one, two] = [await startServer({ on: api, config: limited }), await startServer({ on: api, config: limited })]
  const statuses: number[] = []
  for (let i = 0; i < 11; i++) {
    const server = i % 2 ? one : two
    statuses.push((await server.call('POST /api/auth/register', { json: { email: `l${i}@x.test`, password } })).status)
  }
  assert.deepEqual(statuses, [...Array(10).fill(201), 429])
  const { status, body, headers } = await one.call('POST /api/auth/register?x=1', {
    json: { email: 'l@x.test', password, x: 1 },
  })
  assert.deepEqual([status, body.message], [429, 'too many requests'])
  assert.match(headers.get('retry-after') ?? '', /^[1-9]\d*$/)
})
