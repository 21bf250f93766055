import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose'
import { oauthApplication } from '../../../test/fakes/oauth-application.ts'
import { startReceiver } from '../../../test/fakes/receiver.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const config = { 'auth.oauth_provider.enabled': true, 'agents.allow_private_clients': true }
const api = await startServer({ config })
const issuer = `http://localhost:${new URL(api.url).port}`
const ana = await api.signUp('ana@x.test')
const receiver = await startReceiver()
after(() => receiver.close())
const AFTER = 'https://app.x.test/bye'
const app = await oauthApplication(api, ana.user.id, {
  postLogoutRedirectUris: [AFTER],
  backchannelLogoutUri: `${receiver.url}/logout`,
})
const published = createRemoteJWKSet(new URL(`${api.url}/.well-known/jwks.json`))
const events = 'http://schemas.openid.net/event/backchannel-logout'

const signIn = async () => {
  const json = { email: 'ana@x.test', password: 'long enough password' }
  const { token, refreshToken } = (await api.call('POST /api/auth/login', { json })).body
  const { id_token } = (await app.redeem(await app.approve(token, { scope: 'openid' }))).body
  const cookie = (await api.call('POST /oauth/session', { as: token })).headers.get('set-cookie')?.split(';')[0] ?? ''
  return { token, refreshToken, id_token, cookie, sid: decodeJwt(id_token)['sid'] }
}
const logout = (query: Record<string, string>, cookie = '') =>
  api.call(`GET /oauth/logout?${new URLSearchParams(query)}`, { headers: { cookie } })
const works = async (as: string) => (await api.call('GET /api/auth/me', { as })).status
const logoutsOf = (sid: unknown) =>
  Promise.all(
    receiver.received.map(({ body }) => jwtVerify(new URLSearchParams(body).get('logout_token') ?? '', published)),
  ).then((all) => all.map(({ payload }) => payload).filter((payload) => payload['sid'] === sid))

test('an ID token names the session that ends; every client of the session hears of it', async () => {
  const { token, id_token, cookie, sid } = await signIn()
  const there = { id_token_hint: id_token, post_logout_redirect_uri: AFTER, state: 's t' }
  const ended = await logout(there, cookie)
  assert.deepEqual([ended.status, ended.headers.get('location')], [302, `${AFTER}?state=s+t`])
  assert.match(ended.headers.get('set-cookie') ?? '', /^__Host-svc_session=; .*Max-Age=0$/)
  assert.equal(await works(token), 401)
  await eventually(async () => assert.equal((await logoutsOf(sid)).length, 1))
  const [told] = await logoutsOf(sid)
  const { iat = 0, exp = 0, jti, ...rest } = told ?? {}
  assert.deepEqual(rest, { iss: issuer, aud: app.clientId, sub: ana.user.id, sid, events: { [events]: {} } })
  assert.ok(exp - iat === 120 && jti)
  const [sent] = receiver.received
  assert.deepEqual([sent?.path, sent?.headers['content-type']], ['/logout', 'application/x-www-form-urlencoded'])
  const raw = new URLSearchParams(sent?.body).get('logout_token') ?? ''
  assert.equal(decodeProtectedHeader(raw).typ, 'logout+jwt')
  assert.equal(await works(raw), 401)
  assert.equal((await logout({ id_token_hint: raw })).status, 400, 'a logout token is no ID token')
  assert.equal((await logout(there)).status, 302, 'again')
})

test('whatever ends a session is told', async () => {
  const ends: ((s: { token: string; refreshToken: string; sid: unknown }) => Promise<{ status: number }>)[] = [
    ({ refreshToken }) => api.call('POST /api/auth/logout', { json: { refreshToken } }),
    ({ token, sid }) => api.call(`DELETE /api/auth/sessions/${sid}`, { as: token }),
    async () => api.call('DELETE /api/auth/sessions?all_except_current=true', { as: (await signIn()).token }),
    () => api.call('POST /api/admin/secrets/rotate', { as: 'admin' }),
  ]
  for (const end of ends) {
    const session = await signIn()
    assert.ok((await end(session)).status < 300)
    await eventually(() => {
      const told = receiver.received.map(({ body }) => new URLSearchParams(body).get('logout_token') ?? '')
      assert.ok(told.map((token) => decodeJwt(token)['sid']).includes(session.sid))
    })
  }
  assert.equal((await api.sql('select from svc.oauth_logins')).length, 0)
})

test('without an ID token the user of the browser is asked', async () => {
  const { token, cookie } = await signIn()
  const asked = await logout({ client_id: app.clientId, post_logout_redirect_uri: AFTER }, cookie)
  assert.equal(asked.status, 200)
  const formToken = / data-form-token="([^"]+)"/.exec(asked.text)?.[1] ?? ''
  assert.equal(await works(token), 200)
  const confirm = (form_token: string, own = cookie) =>
    api.call('POST /oauth/logout/confirm', { headers: { cookie: own }, json: { form_token } })
  assert.equal((await confirm('x')).body.error, 'invalid_request')
  assert.equal((await confirm(formToken, '')).status, 401)
  assert.equal((await confirm((await signIn()).cookie)).status, 400)
  const confirmed = await confirm(formToken)
  assert.deepEqual([confirmed.status, confirmed.body.redirect_to], [200, AFTER])
  assert.equal(await works(token), 401)
  assert.equal((await logout({}, cookie)).text.includes('data-form-token=""'), true)
})

test('a browser goes only where the client registered, and an ID token ends its own session alone', async () => {
  const { token, id_token, cookie } = await signIn()
  const stranger = await signIn()
  for (const query of [
    { post_logout_redirect_uri: AFTER },
    { id_token_hint: id_token, post_logout_redirect_uri: 'https://evil.test/' },
    { id_token_hint: id_token, post_logout_redirect_uri: `${AFTER}/` },
    { id_token_hint: id_token, client_id: 'svc_cid_other' },
    { id_token_hint: `${id_token}x` },
    { id_token_hint: token },
  ]) {
    const { status, headers } = await logout(query, cookie)
    assert.deepEqual([status, headers.get('location')], [400, null], JSON.stringify(query))
  }
  assert.equal((await logout({ client_id: 'svc_cid_other', post_logout_redirect_uri: AFTER })).status, 401)
  assert.equal(await works(token), 200, 'what is refused ends nothing')
  const form = { id_token_hint: id_token, post_logout_redirect_uri: AFTER }
  const posted = await api.call('POST /oauth/logout', { form, headers: { cookie: stranger.cookie } })
  assert.deepEqual(
    [posted.status, posted.headers.get('set-cookie')],
    [302, null],
    'the cookie of another session stays',
  )
  assert.deepEqual([await works(token), await works(stranger.token)], [401, 200])
})

test('addresses for logouts are https and never in a private network', async () => {
  const plain = await startServer({ config: { 'auth.oauth_provider.enabled': true }, on: api })
  const [{ id: appId }] = await api.sql('select id from svc.apps limit 1')
  const base = { appId, name: 'c', redirectUris: ['https://app.x.test/cb'], scopes: ['openid'] }
  const register = (more: object) =>
    plain.call('POST /api/admin/oauth/clients', { as: 'admin', json: { ...base, ...more } })
  for (const uri of [
    'http://app.x.test/',
    'https://127.0.0.1/',
    'https://localhost/',
    'https://[::1]/x',
    'https://10.0.0.1/',
    'x',
  ]) {
    const { status, body } = await register({ backchannelLogoutUri: uri })
    assert.deepEqual([status, body.message], [400, `invalid back-channel logout URI: ${uri}`])
  }
  assert.equal((await register({ backchannelLogoutUri: 'https://a.test/#x' })).status, 400)
  const wrong = await register({ postLogoutRedirectUris: ['http://app.x.test/'] })
  assert.equal(wrong.body.message, 'invalid post-logout redirect URI: http://app.x.test/')
  const good = { postLogoutRedirectUris: [AFTER], backchannelLogoutUri: 'https://app.x.test/logout' }
  const { client } = (await register(good)).body
  assert.deepEqual([client.postLogoutRedirectUris, client.backchannelLogoutUri], [[AFTER], good.backchannelLogoutUri])
  const json = { name: 'c', redirectUris: base.redirectUris, scopes: base.scopes }
  const { body } = await plain.call(`PUT /api/admin/oauth/clients/${client.clientId}`, { as: 'admin', json })
  assert.deepEqual([body.postLogoutRedirectUris, body.backchannelLogoutUri], [[], null])
})
