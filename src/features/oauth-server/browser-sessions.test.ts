import assert from 'node:assert/strict'
import { test } from 'node:test'
import { authenticator } from '../../../test/fakes/authenticator.ts'
import { oauthApplication } from '../../../test/fakes/oauth-application.ts'
import { startServer } from '../../../test/kit/kit.ts'

// Single sign-on: a browser that signed in on the consent page is known there by a cookie, and nowhere else.

const api = await startServer({ config: { 'auth.oauth_provider.enabled': true, 'auth.totp_enabled': true } })
const ana = await api.signUp('ana@x.test')
const app = await oauthApplication(api, ana.user.id)

const cookieOf = async (as: string) => {
  const { status, headers } = await api.call('POST /oauth/session', { as })
  assert.equal(status, 204)
  return headers.get('set-cookie') ?? ''
}
const cookie = (await cookieOf(ana.token)).split(';')[0] ?? ''
const visit = (more: Record<string, string> = {}, own = cookie) =>
  api.call(`GET /oauth/consent?${new URLSearchParams(app.request(more) as Record<string, string>)}`, {
    headers: { cookie: own },
  })
const dataOf = (text: string, name: string) =>
  (new RegExp(` data-${name}="([^"]*)"`).exec(text)?.[1] ?? '').replaceAll('&#34;', '"')
const decide = (form_token: string, decision = 'approve', own = cookie) =>
  api.call('POST /oauth/consent', { headers: { cookie: own }, json: { form_token, decision } })
const place = (location: string | null) => new URL(location ?? '').searchParams

test('the cookie is one of its host, for pages alone, and good for nothing else', async () => {
  const set = await cookieOf(ana.token)
  assert.match(set, /^__Host-svc_session=[0-9a-f-]{36}\.[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Lax$/)
  const value = cookie.split('=')[1] ?? ''
  for (const headers of [{ cookie }, { authorization: `Bearer ${value}` }]) {
    for (const line of ['GET /api/auth/me', 'GET /api/auth/sessions', 'POST /oauth/session'] as const) {
      assert.equal((await api.call(line, { headers: headers as Record<string, string> })).status, 401, line)
    }
  }
  const query = new URLSearchParams(app.request() as Record<string, string>)
  assert.equal((await api.call(`GET /api/auth/authorize?${query}`, { headers: { cookie } })).status, 401)
  const json = { decision: 'approve', ...app.request() }
  assert.equal((await api.call('POST /api/auth/authorize/consent', { headers: { cookie }, json })).status, 401)
})

test('a signed-in browser is asked at once, and its answer needs the form token of that page', async () => {
  const { status, text } = await visit()
  assert.equal(status, 200)
  assert.equal(JSON.parse(dataOf(text, 'prompt')).client_name, 'Lion Tracker')
  assert.equal(dataOf(text, 'user'), 'ana@x.test')
  const token = dataOf(text, 'form-token')
  assert.equal((await decide('')).body.error, 'invalid_request')
  assert.equal((await decide(token.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')))).body.error, 'invalid_request')
  assert.equal((await decide(token, 'maybe')).body.error, 'invalid_request')
  assert.equal((await decide(token, 'approve', '')).status, 401)
  const bo = await api.signUp('bo@x.test')
  const other = (await cookieOf(bo.token)).split(';')[0] ?? ''
  assert.equal((await decide(token, 'approve', other)).body.error, 'invalid_request', 'of another browser')
  const both = await Promise.all([decide(token), decide(token)])
  assert.deepEqual(both.map((answer) => answer.status).sort(), [200, 400], 'good once')
  const approved = both.find((answer) => answer.status === 200)
  assert.ok(approved)
  assert.equal((await app.redeem(approved)).status, 200)
})

test('what was agreed to needs no page; what was not needs one, and prompt=none says so', async () => {
  const known = await visit({ state: 's' })
  assert.equal(known.status, 302)
  assert.match(place(known.headers.get('location')).get('code') ?? '', /^[0-9a-f]{64}$/)
  assert.equal(place((await visit({ prompt: 'none' })).headers.get('location')).has('code'), true)
  const error = async (more: Record<string, string>, own?: string) =>
    place((await visit({ prompt: 'none', ...more }, own)).headers.get('location')).get('error')
  assert.equal(await error({ scope: 'readonly' }), 'consent_required')
  assert.equal(await error({}, ''), 'login_required')
  assert.equal(await error({}, `${cookie}x`), 'login_required')
  assert.equal(await error({ max_age: '0' }), 'login_required')
  assert.equal(await error({ login_hint: 'bo@x.test' }), 'login_required')
  assert.equal(await error({ id_token_hint: 'x.y.z' }), 'invalid_request')
  const signIn = await visit({ prompt: 'login', login_hint: 'ana@x.test' })
  assert.deepEqual(
    [signIn.status, dataOf(signIn.text, 'prompt'), dataOf(signIn.text, 'login')],
    [200, '', 'ana@x.test'],
  )
  const wrong = await visit({ redirect_uri: 'https://evil.test/' })
  assert.deepEqual([wrong.status, dataOf(wrong.text, 'problem')], [400, 'redirect_uri is not registered'])
  const lost = await visit({ redirect_uri: 'https://evil.test/', prompt: 'none' })
  assert.deepEqual([lost.status, lost.headers.get('location')], [400, null])
})

test('an application that any program could stand in for is confirmed each time', async () => {
  const native = await oauthApplication(api, ana.user.id, { redirectUris: ['http://127.0.0.1/cb'] })
  const request = native.request({ redirect_uri: 'http://127.0.0.1:4000/cb' })
  const approved = await native.approve(ana.token, { redirect_uri: 'http://127.0.0.1:4000/cb' })
  assert.equal(approved.status, 200)
  const at = (more: object) =>
    api.call(`GET /oauth/consent?${new URLSearchParams({ ...(request as Record<string, string>), ...more })}`, {
      headers: { cookie },
    })
  assert.notEqual(dataOf((await at({})).text, 'form-token'), '')
  assert.equal(place((await at({ prompt: 'none' })).headers.get('location')).get('error'), 'consent_required')
})

test('a denial is one, and spends the token too', async () => {
  const token = dataOf((await visit({ scope: 'readonly' })).text, 'form-token')
  const denied = await decide(token, 'deny')
  assert.equal(place(denied.body.redirect_to).get('error'), 'access_denied')
  assert.equal((await decide(token)).body.error, 'invalid_request')
})

test('the cookie ends with its session, and does not lift a session of one factor', async () => {
  const cat = await api.signUp('cat@x.test')
  const own = (await cookieOf(cat.token)).split(';')[0] ?? ''
  const token = dataOf((await visit({}, own)).text, 'form-token')
  const { uri } = (await api.call('POST /api/auth/mfa/totp/enroll', { as: cat.token })).body
  const json = { code: authenticator(uri).code() }
  assert.equal((await api.call('POST /api/auth/mfa/totp/enroll/confirm', { as: cat.token, json })).status, 200)
  const weak = await decide(token, 'approve', own)
  assert.deepEqual([weak.status, weak.body.error], [403, 'insufficient_aal'])
  await api.call('POST /api/auth/logout', { json: { refreshToken: cat.refreshToken } })
  assert.equal((await decide(token, 'approve', own)).status, 401)
  assert.equal(dataOf((await visit({}, own)).text, 'prompt'), '', 'the page asks for a sign-in')
})
