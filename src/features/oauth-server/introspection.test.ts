import assert from 'node:assert/strict'
import { test } from 'node:test'
import { oauthApplication } from '../../../test/fakes/oauth-application.ts'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'auth.oauth_provider.enabled': true } })
const ana = await api.signUp('ana@x.test')
const [app, stranger] = [
  await oauthApplication(api, ana.user.id, { clientType: 'confidential' }),
  await oauthApplication(api, ana.user.id, { clientType: 'confidential' }),
]
const open = await oauthApplication(api, ana.user.id)
const introspect = (token: string, of = app) =>
  api.call('POST /api/oauth/introspect', { form: { token, client_id: of.clientId, client_secret: of.secret } })
const isActive = async (token: string, of = app) => (await introspect(token, of)).body

test('a client learns what its own tokens are, and nothing of any other', async () => {
  const { access, refresh } = await app.granted(ana.token, { scope: 'openid offline_access readonly' })
  const { exp, iat, ...rest } = (await introspect(access)).body
  const issuer = `http://localhost:${new URL(api.url).port}`
  assert.deepEqual(rest, {
    active: true,
    scope: 'openid offline_access readonly',
    client_id: app.clientId,
    sub: ana.user.id,
    username: 'ana@x.test',
    token_type: 'Bearer',
    iss: issuer,
    aud: `${issuer}/api`,
  })
  assert.equal(exp - iat, 3600)
  assert.equal((await isActive(refresh)).active, true)
  assert.deepEqual(await isActive(access, stranger), { active: false })
  assert.deepEqual(await isActive(refresh, stranger), { active: false })
  for (const token of ['x', `svc_at_${'0'.repeat(64)}`, ana.token])
    assert.deepEqual(await isActive(token), { active: false })
  const own = await app.token({ grant_type: 'client_credentials', scope: 'readonly' })
  const { sub, username, active } = await isActive(own.body.access_token)
  assert.deepEqual([sub, username, active], [undefined, undefined, true])
})

test('it takes a client that proves itself', async () => {
  const { access } = await open.granted(ana.token)
  const form = { token: access, client_id: open.clientId }
  const refused = await api.call('POST /api/oauth/introspect', { form })
  assert.deepEqual([refused.status, refused.body.error], [401, 'invalid_client'])
  assert.equal((await api.call('POST /api/oauth/introspect', { form: { token: access } })).status, 401)
  const wrong = { ...app, secret: 'svc_cs_no' }
  assert.equal((await introspect(access, wrong)).status, 401)
  const none = await api.call('POST /api/oauth/introspect', {
    form: { client_id: app.clientId, client_secret: app.secret },
  })
  assert.deepEqual([none.status, none.body.error], [400, 'invalid_request'])
})

test('what has ended is not active, at once', async () => {
  const end: [string, (tokens: { access: string; refresh: string }) => Promise<unknown>][] = [
    ['revoked', ({ refresh }) => app.revoke(refresh)],
    [
      'expired',
      () =>
        api.sql(
          'update svc.oauth_access_tokens set expires_at = now(); update svc.oauth_refresh_tokens set expires_at = now()',
        ),
    ],
    ['rotated', ({ refresh }) => app.refresh(refresh).then(() => app.refresh(refresh))],
    ['disabled', () => api.sql('update svc.users set disabled_at = now()')],
  ]
  for (const [name, act] of end) {
    const tokens = await app.granted(ana.token)
    assert.equal((await isActive(tokens.access)).active, true, name)
    await act(tokens)
    assert.deepEqual(
      [await isActive(tokens.access), await isActive(tokens.refresh)],
      [{ active: false }, { active: false }],
      name,
    )
  }
})
