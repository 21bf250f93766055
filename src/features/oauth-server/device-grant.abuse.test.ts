import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeJwt } from 'jose'
import { authenticator } from '../../../test/fakes/authenticator.ts'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { oauthApplication } from '../../../test/fakes/oauth-application.ts'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({
  config: {
    'auth.oauth_provider.enabled': true,
    'auth.totp_enabled': true,
    'auth.magic_link_enabled': true,
  },
})
const mail = mailbox(api)
const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
await api.sql('create table notes (id int primary key)')
const app = await oauthApplication(api, ana.user.id)
const other = await oauthApplication(api, ana.user.id)

const begin = async (more: Record<string, string> = {}) => {
  const form = { client_id: app.clientId, scope: 'openid readonly', ...more }
  return (await api.call('POST /api/oauth/device_authorization', { form })).body
}
const poll = (device_code: string, by = app) =>
  by.token({ grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code })
const show = (user_code: string, as = ana.token) => api.call(`GET /api/oauth/device?user_code=${user_code}`, { as })
const decide = (user_code: string, decision: string, as = ana.token) =>
  api.call('POST /api/oauth/device', { as, json: { user_code, decision } })
const told = ({ status, body }: { status: number; body: { error: string } }) => [status, body.error]

test('a device shows a code, its user sees who asks for what, and the device gets tokens once', async () => {
  const { device_code, user_code, ...rest } = await begin()
  const page = `http://localhost:${new URL(api.url).port}/oauth/device`
  assert.match(user_code, /^[A-HJ-NP-Z2-9]{4}-[A-HJ-NP-Z2-9]{4}$/)
  assert.deepEqual(rest, {
    verification_uri: page,
    verification_uri_complete: `${page}?user_code=${user_code}`,
    expires_in: 600,
    interval: 5,
  })
  assert.deepEqual(told(await poll(device_code)), [400, 'authorization_pending'])
  assert.deepEqual(told(await poll(device_code)), [400, 'slow_down'])
  assert.deepEqual(told(await poll(device_code, other)), [400, 'invalid_grant'], 'a code of another client')
  const typed = user_code.toLowerCase().replace('-', '%20')
  assert.deepEqual((await show(typed)).body, {
    client_id: app.clientId,
    client_name: 'Lion Tracker',
    scope: 'openid readonly',
    allowed_tables: [],
  })
  assert.equal((await decide(user_code, 'approve')).status, 204)
  const answers = await Promise.all([1, 2, 3, 4, 5].map(() => poll(device_code)))
  const [won, ...more] = answers.filter(({ status }) => status === 200)
  assert.deepEqual([more.length, answers.filter(({ body }) => body.error === 'invalid_grant').length], [0, 4])
  const { access_token, id_token, refresh_token } = won?.body ?? {}
  assert.equal((await api.call('GET /api/collections/notes', { as: access_token })).status, 200)
  const { sub, acr, sid } = decodeJwt(id_token)
  assert.deepEqual([sub, acr, sid, refresh_token], [ana.user.id, 'aal1', undefined, undefined])
  assert.equal((await decide(user_code, 'deny')).status, 404, 'decided once')
})

test('denied, expired, withdrawn and foreign codes give nothing', async () => {
  const denied = await begin()
  assert.equal((await decide(denied.user_code, 'deny')).status, 204)
  assert.deepEqual(told(await poll(denied.device_code)), [400, 'access_denied'])
  const late = await begin()
  await api.sql('update svc.oauth_device_codes set expires_at = now() where decision is null')
  assert.equal((await show(late.user_code)).status, 404)
  assert.deepEqual(told(await poll(late.device_code)), [400, 'expired_token'])
  assert.deepEqual(told(await poll('x')), [400, 'invalid_grant'])
  assert.deepEqual(told(await poll('')), [400, 'invalid_request'])
  for (const [more, error] of [
    [{ scope: '' }, 'invalid_request'],
    [{ scope: 'all' }, 'invalid_scope'],
    [{ resource: 'https://x.test/' }, 'invalid_target'],
    [{ allowed_tables: 'nowhere' }, 'invalid_request'],
    [{ client_id: 'svc_cid_none' }, 'invalid_client'],
  ] as const) {
    assert.equal((await begin(more)).error, error)
  }
  const { device_code, user_code } = await begin({ scope: 'readwrite' })
  await decide(user_code, 'approve')
  const json = { name: 'Lion Tracker', redirectUris: ['https://app.x.test/cb'], scopes: ['readonly'] }
  await api.call(`PUT /api/admin/oauth/clients/${app.clientId}`, { as: 'admin', json })
  assert.deepEqual(told(await poll(device_code)), [400, 'invalid_grant'])
})

test('what ends the access of an account ends the codes that it approved', async () => {
  const password = 'long enough password'
  const next = 'another long password'
  const ends: [string, (address: string, token: string) => Promise<{ status: number }>][] = [
    [
      'a reset',
      async (email) => {
        await api.call('POST /api/auth/password-reset', { json: { email } })
        const token = await mail.token(email, 1, '/auth/reset')
        return api.call('POST /api/auth/password-reset/confirm', { json: { token, password: next } })
      },
    ],
    [
      'a changed password',
      (_, as) =>
        api.call('POST /api/auth/password-change', { as, json: { current_password: password, password: next } }),
    ],
    [
      'the first proof of the address',
      async (email) => {
        await api.call('POST /api/auth/magic-link', { json: { email } })
        const token = await mail.token(email, 1, '/auth/magic-link')
        return api.call('POST /api/auth/magic-link/confirm', { json: { token } })
      },
    ],
    [
      'the end of the grant of the same client',
      async (_, as) => {
        await app.granted(as, { scope: 'readonly' })
        const [{ id }] = (await api.call('GET /api/auth/grants', { as })).body
        return api.call(`DELETE /api/auth/grants/${id}`, { as })
      },
    ],
  ]
  for (const [i, [what, end]] of ends.entries()) {
    const email = `ended${i}@x.test`
    const { token } = await api.signUp(email, password)
    const { device_code, user_code } = await begin()
    assert.equal((await decide(user_code, 'approve', token)).status, 204)
    assert.ok((await end(email, token)).status < 300, what)
    assert.deepEqual(told(await poll(device_code)), [400, 'invalid_grant'], what)
  }
})

test('a disabled account gets no tokens for what it granted, until it is enabled', async () => {
  const { user, token } = await api.signUp('disabled@x.test')
  const scope = 'openid email offline_access readonly'
  const { access, refresh } = await app.granted(token, { scope })
  const code = await app.approve(token, { scope })
  const { device_code, user_code } = await begin()
  assert.equal((await decide(user_code, 'approve', token)).status, 204)
  assert.equal((await api.call(`POST /api/admin/users/${user.id}/disable`, { as: 'admin' })).status, 204)
  assert.deepEqual(told(await app.refresh(refresh)), [400, 'invalid_grant'])
  assert.deepEqual(told(await app.redeem(code)), [400, 'invalid_grant'])
  assert.deepEqual(told(await poll(device_code)), [400, 'invalid_grant'])
  const info = () => api.call('GET /api/oauth/userinfo', { as: access })
  assert.equal((await info()).status, 401)
  assert.equal((await api.call(`POST /api/admin/users/${user.id}/enable`, { as: 'admin' })).status, 204)
  assert.deepEqual([(await info()).status, (await app.refresh(refresh)).status], [200, 200])
})

test('who has a second factor approves with it, and only people decide', async () => {
  const { user_code } = await begin()
  const cat = await api.signUp('cat@x.test')
  const { uri } = (await api.call('POST /api/auth/mfa/totp/enroll', { as: cat.token })).body
  const json = { code: authenticator(uri).code() }
  await api.call('POST /api/auth/mfa/totp/enroll/confirm', { as: cat.token, json })
  assert.deepEqual(told(await decide(user_code, 'approve', cat.token)), [403, 'insufficient_aal'])
  const { access } = await app.granted(ana.token, { scope: 'readonly' })
  assert.equal((await decide(user_code, 'approve', access)).status, 403)
  assert.equal((await api.call('POST /api/oauth/device', { json: { user_code, decision: 'approve' } })).status, 401)
  assert.equal((await decide(user_code, 'maybe')).status, 400)
  const kept = await api.sql('select user_code_hash from svc.oauth_device_codes')
  assert.ok(kept.every((row) => !row.user_code_hash.includes(user_code.replace('-', ''))))
})

test('five wrong codes a minute, of an account and of an address; right ones do not count', async () => {
  await api.sql('delete from svc.oauth_device_misses')
  const { user_code } = await begin()
  for (const _ of [1, 2, 3, 4, 5, 6, 7]) assert.equal((await show(user_code)).status, 200)
  const wrong = await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map(() => show('AAAA-AAAA')))
  assert.deepEqual(wrong.map(({ status }) => status).sort(), [404, 404, 404, 404, 404, 429, 429, 429])
  const refused = await decide(user_code, 'approve')
  assert.deepEqual(told(refused), [429, 'too_many_attempts'], 'the right one too')
  assert.ok(Number(refused.headers.get('retry-after')) <= 60)
  assert.equal((await show(user_code, bo.token)).status, 429, 'another account at the same address')
  await api.sql(`delete from svc.oauth_device_misses where subject like 'address%'`)
  assert.equal((await show(user_code)).status, 429, 'the same account elsewhere')
  assert.equal((await show(user_code, bo.token)).status, 200)
  await api.sql('update svc.oauth_device_misses set expires_at = now()')
  assert.equal((await show(user_code)).status, 200, 'a minute later')
})

test('a client has a bounded number of open codes', async () => {
  await api.sql(
    `insert into svc.oauth_device_codes (hash, user_code_hash, client, scope, tables, pace, expires_at)
    select 'h' || n, 'u' || n, (select id from svc.oauth_clients where client_id = $1), 'readonly', '{}', 5,
      now() + interval '1 hour' from generate_series(1, 1000) n`,
    [app.clientId],
  )
  const form = { client_id: app.clientId, scope: 'readonly' }
  assert.equal((await api.call('POST /api/oauth/device_authorization', { form })).status, 429)
})
