import assert from 'node:assert/strict'
import { test } from 'node:test'
import { spawnServer, startServer, type TestServer } from '../../../test/kit/kit.ts'

const api = await startServer()
const other = await spawnServer({ on: api })
const password = 'long enough password'

const login = async (email: string, agent = 'test') =>
  (await api.call('POST /api/auth/login', { json: { email, password }, headers: { 'user-agent': agent } })).body as {
    token: string
    refreshToken: string
  }
const refresh = (refreshToken: string, server: TestServer = api) =>
  server.call('POST /api/auth/refresh', { json: { refreshToken } })
const statusOfMe = async (token: string, server: TestServer = api) =>
  (await server.call('GET /api/auth/me', { as: token })).status
const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

test('refresh gives new tokens of the same session', async () => {
  const first = await api.signUp('r1@x.test')
  const { status, body } = await refresh(first.refreshToken)
  assert.equal(status, 200)
  assert.notEqual(body.refreshToken, first.refreshToken)
  const [before, after] = [claimsOf(first.token), claimsOf(body.token)]
  assert.deepEqual([after.sid, after.aal, after.amr, after.sub], [before.sid, before.aal, before.amr, before.sub])
  assert.notEqual(after.jti, before.jti)
  assert.equal((await refresh(body.refreshToken)).status, 200)
})

test('of fifty parallel refreshes over two processes one wins, and the losers do no harm', async () => {
  const { refreshToken, token } = await api.signUp('r2@x.test')
  // A busy machine may take longer for them than the ten seconds in which reuse does no harm.
  await api.sql(`create function lasting() returns trigger language plpgsql as $$
      begin new.rotated_at = new.rotated_at + interval '5 minutes'; return new; end $$;
    create trigger lasting before update of rotated_at on svc.refresh_tokens for each row execute function lasting()`)
  const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => refresh(refreshToken, i % 2 ? api : other)))
  const won = answers.filter(({ status }) => status === 200)
  assert.equal(won.length, 1)
  assert.ok(answers.every(({ status }) => status === 200 || status === 401))
  assert.equal((await refresh(won[0]?.body.refreshToken)).status, 200)
  assert.equal(await statusOfMe(token), 200)
  await api.sql('drop function lasting cascade')
})

test('a used token that comes back late ends the whole session', async () => {
  const { refreshToken, token } = await api.signUp('r3@x.test')
  const next = (await refresh(refreshToken)).body
  await api.sql(
    `update svc.refresh_tokens set rotated_at = rotated_at - interval '11 seconds' where rotated_at is not null`,
  )
  const theft = await refresh(refreshToken, other)
  assert.deepEqual([theft.status, theft.body.message], [401, 'invalid or expired refresh token'])
  assert.equal((await refresh(next.refreshToken)).status, 401)
  assert.equal(await statusOfMe(token, other), 401)
})

test('with a grace time the used token answers with the same successor', async () => {
  const graceful = await startServer({ on: api, config: { 'auth.refresh_grace_seconds': 30 } })
  const { refreshToken } = await api.signUp('r4@x.test')
  const [first, second] = [await refresh(refreshToken, graceful), await refresh(refreshToken, graceful)]
  assert.deepEqual([first.status, second.status], [200, 200])
  assert.equal(second.body.refreshToken, first.body.refreshToken)
  assert.notEqual(second.body.token, first.body.token)
  const [stored] = await api.sql(`select string_agg(successor_sealed, '') as sealed from svc.refresh_tokens`)
  assert.ok(!Buffer.from(stored.sealed, 'base64').toString().includes(first.body.refreshToken))

  assert.equal((await refresh(first.body.refreshToken, graceful)).status, 200)
  assert.equal((await refresh(refreshToken, graceful)).status, 401)
  assert.equal((await refresh(first.body.refreshToken, graceful)).status, 200)
  await graceful.stop()
})

test('an expired refresh token is refused', async () => {
  const { refreshToken } = await api.signUp('r5@x.test')
  await api.sql(`update svc.refresh_tokens set expires_at = now() - interval '1 second' where rotated_at is null`)
  assert.equal((await refresh(refreshToken)).status, 401)
})

test('refresh tokens are stored only as hashes', async () => {
  const { refreshToken } = await api.signUp('r6@x.test')
  const rows = await api.sql(`select t::text as row from svc.refresh_tokens t`)
  assert.ok(rows.every(({ row }) => !row.includes(refreshToken)))
})

test('a user sees and ends their sessions', async () => {
  await api.signUp('s1@x.test')
  const [phone, laptop] = [await login('s1@x.test', 'phone'), await login('s1@x.test', 'laptop')]
  const list = await api.call('GET /api/auth/sessions', { as: laptop.token })
  assert.equal(list.status, 200)
  assert.equal(list.body.length, 3)
  const [current, before] = list.body
  assert.deepEqual(Object.keys(current), ['id', 'user_agent', 'ip_address', 'created_at', 'last_active_at', 'current'])
  assert.deepEqual([current.user_agent, current.current, current.ip_address], ['laptop', true, '127.0.0.1'])
  assert.deepEqual([before.user_agent, before.current], ['phone', false])

  await refresh(phone.refreshToken)
  const active = await api.call('GET /api/auth/sessions', { as: laptop.token })
  assert.equal(active.body[0].id, before.id)

  assert.equal((await api.call(`DELETE /api/auth/sessions/${before.id}`, { as: laptop.token })).status, 204)
  assert.equal(await statusOfMe(phone.token), 401)
  assert.equal((await refresh(phone.refreshToken)).status, 401)
  const again = await api.call(`DELETE /api/auth/sessions/${before.id}`, { as: laptop.token })
  assert.deepEqual([again.status, again.body.message], [404, 'session not found'])
  const bad = await api.call('DELETE /api/auth/sessions/7', { as: laptop.token })
  assert.deepEqual([bad.status, bad.body.message], [400, 'invalid session id format'])
  const stranger = await api.signUp('s2@x.test')
  const foreign = await api.call(`DELETE /api/auth/sessions/${current.id}`, { as: stranger.token })
  assert.deepEqual([foreign.status, foreign.body.message], [403, "cannot revoke another user's session"])
})

test('all other sessions end together, and only with the flag', async () => {
  const first = await api.signUp('s3@x.test')
  const current = await login('s3@x.test')
  for (const query of ['', '?all_except_current=false', '?all_except_current=1', '?all_except_current=']) {
    const { status, body } = await api.call(`DELETE /api/auth/sessions${query}`, { as: current.token })
    assert.deepEqual([status, body.message], [400, 'all_except_current=true is required'])
  }
  assert.equal((await api.call('DELETE /api/auth/sessions?all_except_current=true', { as: current.token })).status, 204)
  assert.equal(await statusOfMe(current.token), 200)
  assert.equal(await statusOfMe(first.token), 401)
  assert.equal((await api.call('GET /api/auth/sessions', { as: current.token })).body.length, 1)
})
