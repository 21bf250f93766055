import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { talkTo } from '../../../test/kit/web-socket.ts'

let api: InProcessServer
before(async () => {
  api = await startServer({ config: { 'log.level': 'info', 'realtime.max_connections_per_user': 3 } })
  await api.sql(`create table own (id int primary key, owner uuid, body text);
    alter table own enable row level security;
    create policy mine on own using (owner = svc.uid());
    create table open (id int primary key)`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/open', { as: 'admin' })).status, 200))
})

let people = 0
const signUp = () => api.signUp(`p${++people}@x.test`)
let lastRow = 0
const write = async (table: 'own' | 'open', more: object = {}): Promise<number> => {
  const id = ++lastRow
  const { status } = await api.call(`POST /api/collections/${table}`, { as: 'admin', json: { id, ...more } })
  assert.equal(status, 201)
  return id
}

test('who has not said a token may ask for nothing, and hears what is theirs afterwards', async () => {
  const [ana, bo] = [await signUp(), await signUp()]
  const [hers, his] = [await talkTo(api.url), await talkTo(api.url, { token: bo.token })]
  assert.equal((await hers.ask({ type: 'subscribe', tables: ['own'] })).message, 'authentication required')
  assert.equal((await hers.ask({ type: 'auth', token: 'nonsense' })).message, 'invalid or expired token')
  assert.equal((await hers.ask({ type: 'auth', token: ana.token })).status, 'ok')
  for (const talk of [hers, his]) assert.equal((await talk.ask({ type: 'subscribe' })).status, 'ok')
  await write('own', { owner: ana.user.id, body: 'secret' })
  const last = await write('open')
  for (const talk of [hers, his]) await talk.until(({ record }) => record?.id === last)
  assert.deepEqual(
    hers.events().map(({ table }) => table),
    ['own', 'open'],
  )
  assert.deepEqual(
    his.events().map(({ table }) => table),
    ['open'],
  )
  hers.close()
  his.close()
})

test('who says no token is let go after ten seconds', async (t) => {
  const timers = t.mock.method(globalThis, 'setTimeout')
  const talk = await talkTo(api.url)
  const expire = timers.mock.calls.findLast(({ arguments: [, ms] }) => ms === 10_000)?.arguments[0]
  timers.mock.restore()
  assert.equal((await talk.ask({ type: 'ping' })).status, 'ok')
  assert.equal(talk.ws.readyState, talk.ws.OPEN)
  expire?.()
  assert.equal(await talk.closed(), 4401)
  assert.deepEqual(talk.heard.at(-1), {
    type: 'error',
    code: 401,
    error: 'unauthorized',
    message: 'authentication required',
  })
})

test('a bad token in the handshake is 401; in the address it reaches no log', async () => {
  const { token } = await signUp()
  await assert.rejects(talkTo(api.url, { token: `${token}x` }), /refused 401 .*invalid or expired token/)
  await assert.rejects(talkTo(api.url, { headers: { authorization: 'Basic x' } }), /refused 401/)
  const talk = await talkTo(api.url, { token, headers: { 'x-request-id': 'look-for-me' } })
  assert.equal(talk.headers['x-request-id'], 'look-for-me')
  talk.close()
  const line = await eventually(() => {
    const found = api.observations.find(({ attrs }) => attrs?.['requestId'] === 'look-for-me')
    assert.ok(found)
    return found
  })
  assert.deepEqual(
    [line.attrs?.['status'], line.attrs?.['path'], line.attrs?.['route']],
    [101, '/api/realtime/ws?token=***', '/api/realtime/ws'],
  )
  assert.ok(!JSON.stringify(api.observations).includes(token))
})

test('a new token of the same user renews the connection; the old one may end then', async () => {
  const ana = await signUp()
  const talk = await talkTo(api.url, { token: ana.token })
  await talk.ask({ type: 'subscribe', tables: ['own'] })
  const other = await api.call('POST /api/auth/login', {
    json: { email: ana.user.email, password: 'long enough password' },
  })
  assert.equal((await talk.ask({ type: 'auth', token: other.body.token })).status, 'ok')
  // The session of the first token ends; the connection belongs to the other one now.
  assert.equal(
    (await api.call('POST /api/auth/logout', { as: ana.token, json: { refreshToken: ana.refreshToken } })).status,
    204,
  )
  const witness = await listenTo(api.url, { token: ana.token })
  assert.equal(witness.status, 401)
  const id = await write('own', { owner: ana.user.id })
  await talk.until(({ record }) => record?.id === id)
  await api.call('POST /api/auth/logout', { as: other.body.token, json: { refreshToken: other.body.refreshToken } })
  assert.equal(await talk.closed(), 4401)
  assert.deepEqual(talk.heard.at(-1), {
    type: 'error',
    code: 401,
    error: 'invalid_token',
    message: 'invalid or expired token',
  })
})

test("another user's token is refused, and the connection stays as it was", async () => {
  const [ana, bo] = [await signUp(), await signUp()]
  const talk = await talkTo(api.url, { token: ana.token })
  await talk.ask({ type: 'subscribe', tables: ['own'] })
  for (const token of [bo.token, await api.adminToken()]) {
    const { status, message } = await talk.ask({ type: 'auth', token })
    assert.deepEqual([status, message], ['error', 'token belongs to another user'])
  }
  await write('own', { owner: bo.user.id })
  const id = await write('own', { owner: ana.user.id })
  await talk.until(({ record }) => record?.id === id)
  assert.equal(talk.events().length, 1)
  talk.close()
})

test('tokens renewed while they are revoked: the connection ends or belongs to a good token', async () => {
  const ana = await signUp()
  for (let round = 0; round < 5; round++) {
    const { body } = await api.call('POST /api/auth/login', {
      json: { email: ana.user.email, password: 'long enough password' },
    })
    const talk = await talkTo(api.url, { token: ana.token })
    const asked = talk.ask({ type: 'auth', token: body.token }).catch(() => undefined)
    await api.call('POST /api/auth/logout', { as: body.token, json: { refreshToken: body.refreshToken } })
    const reply = await asked
    if (reply?.status === 'error') {
      assert.equal(reply.message, 'invalid or expired token')
      assert.equal((await talk.ask({ type: 'ping' })).status, 'ok')
      talk.close()
    } else assert.equal(await talk.closed(), 4401)
  }
})

test('a connection says once for each token that it is about to expire, and ends with it', async () => {
  const short = await startServer({ on: api, config: { 'auth.token_duration': 8 } })
  const email = `p${++people}@x.test`
  const { refreshToken } = await short.signUp(email)
  const refreshed = (await short.call('POST /api/auth/refresh', { json: { refreshToken } })).body
  const { token } = refreshed
  const talk = await talkTo(short.url)
  await talk.ask({ type: 'auth', token })
  await talk.ask({ type: 'subscribe', tables: ['open'] })
  const expOf = (jwt: string): number => JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString()).exp
  const notices = () => talk.heard.filter(({ type }) => type === 'expiring').map(({ expires_at: at }) => at)
  await talk.until(({ type }) => type === 'expiring')
  assert.deepEqual(notices(), [expOf(token)])
  // In another second, so that the new one ends later.
  await new Promise((resolve) => setTimeout(resolve, 1_100))
  const again = await short.call('POST /api/auth/refresh', { json: { refreshToken: refreshed.refreshToken } })
  const next = again.body.token
  assert.equal((await talk.ask({ type: 'auth', token: next })).status, 'ok')
  await eventually(() => assert.deepEqual(notices(), [expOf(token), expOf(next)]))
  assert.equal(await talk.closed(), 4401)
  assert.deepEqual(talk.heard.at(-1), {
    type: 'error',
    code: 401,
    error: 'invalid_token',
    message: 'invalid or expired token',
  })
  await short.stop()
})

test('streams and WebSockets share their limit: 429 with the handshake, 4429 after a message', async () => {
  const { token } = await signUp()
  const streams = [await listenTo(api.url, { token }), await listenTo(api.url, { token })]
  const talk = await talkTo(api.url, { token })
  await assert.rejects(talkTo(api.url, { token }), /refused 429 .*connection limit exceeded/)
  assert.equal((await listenTo(api.url, { token })).status, 429)
  const late = await talkTo(api.url)
  assert.equal((await late.ask({ type: 'auth', token })).message, 'connection limit exceeded')
  assert.equal(await late.closed(), 4429)
  talk.close()
  await eventually(async () => {
    const again = await talkTo(api.url)
    const { status } = await again.ask({ type: 'auth', token })
    again.close()
    assert.equal(status, 'ok')
  })
  for (const stream of streams) stream.close()
})

test('a secret that is rotated away ends the connections of users everywhere; a key goes on', async () => {
  const there = await startServer({ on: api })
  const ana = await signUp()
  const key = await api.call('POST /api/auth/api-keys', { as: ana.token, json: { name: 'k', scope: 'readonly' } })
  const [user, machine] = [
    await talkTo(there.url, { token: ana.token }),
    await talkTo(there.url, { token: key.body.key }),
  ]
  await machine.ask({ type: 'subscribe', tables: ['open'] })
  await api.call('POST /api/admin/secrets/rotate', { as: 'admin', json: {} })
  assert.equal(await user.closed(), 4401)
  const id = await write('open')
  await machine.until(({ record }) => record?.id === id)
  machine.close()
  await there.stop()
})

test('a key with allowed tables hears of those alone', async () => {
  const ana = await signUp()
  const { body } = await api.call('POST /api/auth/api-keys', {
    as: ana.token,
    json: { name: 'k', scope: 'readonly', allowedTables: ['open'] },
  })
  const talk = await talkTo(api.url, { token: body.key })
  assert.equal((await talk.ask({ type: 'subscribe', tables: ['own'] })).status, 'error')
  await talk.ask({ type: 'subscribe' })
  await write('own', { owner: ana.user.id })
  const id = await write('open')
  await talk.until(({ record }) => record?.id === id)
  assert.equal(talk.events().length, 1)
  talk.close()
})

test('a policy that fails ends its own connection with 4403', async () => {
  await api.sql(`create table broken (id int primary key);
    alter table broken enable row level security;
    create policy fails on broken using ((1 / (id - id)) = 1)`)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/broken', { as: 'admin' })).status, 200),
  )
  const { token } = await signUp()
  const [bad, good] = [await talkTo(api.url, { token }), await talkTo(api.url, { token })]
  assert.equal((await bad.ask({ type: 'subscribe', tables: ['broken'] })).status, 'ok')
  await good.ask({ type: 'subscribe', tables: ['open'] })
  await api.call('POST /api/collections/broken', { as: 'admin', json: { id: 1 } })
  assert.equal(await bad.closed(), 4403)
  assert.deepEqual(bad.heard.at(-1), {
    type: 'error',
    code: 403,
    error: 'row_security_failed',
    message: 'row security check failed',
  })
  const id = await write('open')
  await good.until(({ record }) => record?.id === id)
  good.close()
})
