import assert from 'node:assert/strict'
import { test } from 'node:test'
import { oauthApplication } from '../../../test/fakes/oauth-application.ts'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'auth.oauth_provider.enabled': true } })
const ana = await api.signUp('ana@x.test')
const app = await oauthApplication(api, ana.user.id)
const robot = await oauthApplication(api, ana.user.id, { clientType: 'confidential' })
const basic = { authorization: `Basic ${Buffer.from(`${robot.clientId}:${robot.secret}`).toString('base64')}` }

const push = (more: Record<string, unknown> = {}, headers: Record<string, string> = {}) =>
  api.call('POST /api/oauth/par', { form: app.request(more) as Record<string, string>, headers })
const authorize = (request_uri: string, client_id = app.clientId) =>
  api.call(`GET /api/auth/authorize?${new URLSearchParams({ client_id, request_uri })}`, {
    as: ana.token,
    headers: { accept: 'application/json' },
  })

test('a pushed request is spent by the first authorize, also where two race', async () => {
  const pushed = await push({ state: 'ström', nonce: 'n' })
  assert.equal(pushed.status, 201)
  assert.match(pushed.body.request_uri, /^urn:ietf:params:oauth:request_uri:[\w-]{43}$/)
  assert.equal(pushed.body.expires_in, 600)
  assert.equal(pushed.headers.get('cache-control'), 'no-store')
  const answers = await Promise.all([1, 2, 3, 4].map(() => authorize(pushed.body.request_uri)))
  const [won, ...more] = answers.filter(({ status }) => status === 200)
  assert.deepEqual([won?.body.state, won?.body.nonce, won?.body.scope, more.length], ['ström', 'n', 'readwrite', 0])
  const again = await authorize(pushed.body.request_uri)
  assert.deepEqual([again.status, again.body.error], [400, 'invalid_request_uri'])
  const { redeem } = app
  assert.equal((await redeem(await app.approve(ana.token, won?.body))).status, 200)
})

test('a remembered consent spends it with the code', async () => {
  const { request_uri } = (await push()).body
  const answers = await Promise.all([authorize(request_uri), authorize(request_uri)])
  assert.equal(answers.filter(({ body }) => body.redirect_to?.includes('code=')).length, 1)
  assert.equal((await api.sql('select from svc.oauth_pushed')).length, 0)
})

test('it belongs to its client, ends, and is checked when it is pushed', async () => {
  const { request_uri } = (await push()).body
  assert.equal((await authorize(request_uri, robot.clientId)).body.error, 'invalid_request_uri')
  await api.sql('update svc.oauth_pushed set expires_at = now()')
  assert.equal((await authorize(request_uri)).body.error, 'invalid_request_uri')
  const refused: [Record<string, unknown>, string][] = [
    [{ redirect_uri: 'https://evil.test/' }, 'invalid_request'],
    [{ scope: 'all' }, 'invalid_scope'],
    [{ request_uri }, 'invalid_request'],
    [{ request: 'e30.e30.' }, 'request_not_supported'],
    [{ code_challenge: 'x' }, 'invalid_request'],
    [{ allowed_tables: 'nowhere' }, 'invalid_request'],
  ]
  for (const [more, error] of refused) {
    const { status, body } = await push(more)
    assert.deepEqual([status, body.error], [400, error], JSON.stringify(more))
  }
  assert.equal((await push({ client_id: robot.clientId })).body.error, 'invalid_client', 'its secret is missing')
  assert.equal((await push({ client_id: robot.clientId }, basic)).status, 201)
  const [row] = await api.sql('select parameters::text from svc.oauth_pushed where parameters::text like $1', [
    `%${robot.clientId}%`,
  ])
  assert.ok(!row.parameters.includes(robot.secret))
  const foreign = await authorize('https://evil.test/request')
  assert.equal(foreign.body.error, 'invalid_request_uri')
})

test('a client has a bounded number of open requests, and large ones are refused', async () => {
  await api.sql(
    `insert into svc.oauth_pushed (hash, client, parameters, expires_at)
    select 'h' || n, (select id from svc.oauth_clients where client_id = $1), '{}', now() + interval '1 hour'
    from generate_series(1, 1000) n`,
    [app.clientId],
  )
  const full = await push()
  assert.deepEqual([full.status, full.headers.get('retry-after')], [429, '60'])
  await api.sql('delete from svc.oauth_pushed')
  assert.equal((await push({ state: 's'.repeat(20_000) })).status, 413)
  assert.ok((await push({ state: 'a\0b' })).status < 500)
})
