import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from 'jose'
import { oauthApplication } from '../../../test/fakes/oauth-application.ts'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'auth.oauth_provider.enabled': true } })
const issuer = `http://localhost:${new URL(api.url).port}`
const ana = await api.signUp('ana@x.test')
await api.call('PATCH /api/auth/me', { as: ana.token, json: { metadata: { name: 'Ana', role: 'x', locale: 7 } } })
await api.sql('create table notes (id int primary key)')
const app = await oauthApplication(api, ana.user.id, { scopes: ['readonly', 'openid', 'profile', 'email'] })
const published = createRemoteJWKSet(new URL(`${api.url}/.well-known/jwks.json`))
const tokensOf = async (more: Record<string, unknown>) => {
  const { status, body, text } = await app.redeem(await app.approve(ana.token, more))
  assert.equal(status, 200, text)
  return body
}
const userInfo = (as: string) => api.call('GET /api/oauth/userinfo', { as })

test('the discovery document names every endpoint, and they are there', async () => {
  const { body } = await api.call('GET /.well-known/openid-configuration')
  assert.equal(body.issuer, issuer)
  assert.deepEqual(body.id_token_signing_alg_values_supported, ['ES256'])
  assert.deepEqual(body.acr_values_supported, ['aal1', 'aal2'])
  assert.ok(['openid', 'profile', 'email', 'offline_access'].every((word) => body.scopes_supported.includes(word)))
  const served = new Set(api.app.routes.map(({ path }) => path))
  for (const [name, value] of Object.entries(body)) {
    if (/_endpoint$|^jwks_uri$/.test(name)) assert.ok(served.has(new URL(String(value)).pathname), name)
  }
})

test('an ID token says who signed in, when and how, to its client alone', async () => {
  const { id_token, access_token, refresh_token, scope } = await tokensOf({
    scope: 'profile openid email',
    nonce: 'n-0',
  })
  assert.deepEqual([scope, refresh_token], ['openid profile email', undefined])
  const { payload } = await jwtVerify(id_token, published, { issuer, audience: app.clientId })
  const { iat = 0, exp = 0, auth_time, sid, updated_at, ...rest } = payload
  assert.deepEqual(rest, {
    iss: issuer,
    aud: app.clientId,
    sub: ana.user.id,
    nonce: 'n-0',
    acr: 'aal1',
    amr: ['password'],
    name: 'Ana',
    email: 'ana@x.test',
    email_verified: false,
  })
  const [session] = await api.sql('select id, floor(extract(epoch from created_at)) as at from svc.sessions')
  assert.deepEqual([sid, auth_time, exp - iat], [session.id, Number(session.at), 900])
  assert.equal(typeof updated_at, 'number')
  assert.equal(decodeProtectedHeader(id_token).typ, 'JWT')
  assert.equal((await api.call('GET /api/auth/me', { as: id_token })).status, 401, 'it is no bearer')
  assert.equal((await userInfo(id_token)).status, 401)
  assert.deepEqual((await userInfo(access_token)).body, {
    sub: ana.user.id,
    name: 'Ana',
    updated_at,
    email: 'ana@x.test',
    email_verified: false,
  })
})

test('openid alone opens no data; beside a scope of ours it opens what that one does', async () => {
  const { access_token: alone } = await tokensOf({ scope: 'openid' })
  assert.deepEqual((await userInfo(alone)).body, { sub: ana.user.id })
  for (const line of ['GET /api/collections/notes', 'GET /api/auth/me', 'GET /api/schema'] as const) {
    const { status, body } = await api.call(line, { as: alone })
    assert.deepEqual([status, body.error], [403, 'insufficient_scope'], line)
  }
  assert.equal((await api.call('GET /api/admin/apps', { as: alone })).status, 401)
  const { access_token: both, scope } = await tokensOf({ scope: 'readonly openid' })
  assert.equal(scope, 'openid readonly')
  assert.equal((await api.call('GET /api/collections/notes', { as: both })).status, 200)
  assert.equal((await api.call('POST /api/collections/notes', { as: both, json: { id: 1 } })).status, 403)
  const { access_token: data, refresh_token, id_token } = await tokensOf({ scope: 'readonly' })
  assert.deepEqual([typeof refresh_token, id_token], ['string', undefined])
  const refused = await userInfo(data)
  assert.equal(refused.status, 403)
  assert.match(refused.headers.get('www-authenticate') ?? '', /^Bearer error="insufficient_scope"/)
})

test('with offline_access there is a refresh token, which brings the next ID token', async () => {
  const first = await tokensOf({ scope: 'openid offline_access', nonce: 'once' })
  const { body } = await app.refresh(first.refresh_token)
  const { payload } = await jwtVerify(body.id_token, published, { issuer, audience: app.clientId })
  assert.deepEqual([payload.sub, payload['nonce'], payload['acr']], [ana.user.id, undefined, 'aal1'])
})

test('words that stand for nothing are refused', async () => {
  for (const scope of ['profile', 'email offline_access', 'openid openid', 'openid storage:read', 'openid phone']) {
    const { status, body } = await app.approve(ana.token, { scope })
    assert.deepEqual([status, body.error], [400, 'invalid_scope'], scope)
  }
  assert.equal((await app.approve(ana.token, { nonce: 'n'.repeat(513) })).body.error, 'invalid_request')
  assert.equal((await app.approve(ana.token, { nonce: 7 })).body.error, 'invalid_request')
})

test('prompt and max_age are held; with prompt=none the client hears what is missing', async () => {
  const errorOf = ({ body }: { body: { redirect_to: string } }) => new URL(body.redirect_to).searchParams.get('error')
  const cat = await api.signUp('cat@x.test')
  const scope = 'openid email'
  assert.equal(errorOf(await app.authorize(cat.token, { prompt: 'none', scope })), 'consent_required')
  await app.approve(cat.token, { scope })
  const silent = await app.authorize(cat.token, { prompt: 'none', scope })
  assert.match(silent.body.redirect_to, /[?&]code=[0-9a-f]{64}&state=state&iss=/)
  assert.equal((await app.authorize(cat.token, { prompt: 'consent', scope })).body.requires_consent, true)
  await api.sql(`update svc.sessions set created_at = now() - interval '1 hour' where user_id = '${cat.user.id}'`)
  assert.equal(errorOf(await app.authorize(cat.token, { prompt: 'none', max_age: '60', scope })), 'login_required')
  for (const more of [{ max_age: '60' }, { prompt: 'login' }, { prompt: 'select_account' }]) {
    const { status, body } = await app.authorize(cat.token, { scope, ...more })
    assert.deepEqual([status, body.error], [400, 'login_required'], JSON.stringify(more))
    assert.equal((await app.approve(cat.token, { scope, ...more })).body.error, 'login_required')
  }
  assert.equal((await app.authorize(cat.token, { max_age: '7200', scope })).body.requires_consent, false)
  for (const more of [{ prompt: 'none login' }, { prompt: 'shout' }, { max_age: '-1' }, { max_age: 'x' }]) {
    assert.equal(
      (await app.authorize(cat.token, { scope, ...more })).body.error,
      'invalid_request',
      JSON.stringify(more),
    )
  }
  assert.equal(errorOf(await app.authorize(cat.token, { prompt: 'none', scope: 'readwrite' })), 'invalid_scope')
  const lost = await app.authorize(cat.token, { prompt: 'none', redirect_uri: 'https://evil.test/cb' })
  assert.deepEqual([lost.status, lost.body.error], [400, 'invalid_request'], 'never to an address of another')
})

test('a code of a session that has ended is no sign-in', async () => {
  const login = { email: 'cat@x.test', password: 'long enough password' }
  const { token, refreshToken } = (await api.call('POST /api/auth/login', { json: login })).body
  const approved = await app.approve(token, { scope: 'openid' })
  await api.call('POST /api/auth/logout', { json: { refreshToken } })
  const { status, body } = await app.redeem(approved)
  assert.deepEqual([status, body.error], [400, 'invalid_grant'])
})

test('without a key that others can verify there is no OpenID Connect', async () => {
  const config = { 'auth.oauth_provider.enabled': true, 'auth.signing_algorithm': 'HS256' }
  const plain = await startServer({ config })
  assert.equal((await plain.call('GET /.well-known/openid-configuration')).status, 404)
  const { user, token } = await plain.signUp('dan@x.test')
  const other = await oauthApplication(plain, user.id)
  assert.equal((await other.approve(token, { scope: 'openid' })).body.error, 'invalid_scope')
  assert.equal((await other.approve(token)).status, 200)
})
