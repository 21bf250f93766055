import assert from 'node:assert/strict'
import { test } from 'node:test'
import { oauthApplication } from '../fakes/oauth-application.ts'
import { eventually, startServer } from '../kit/kit.ts'

const api = await startServer({ config: { 'auth.oauth_provider.enabled': true } })
const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
const me = async (as: string) => (await api.call('GET /api/auth/me', { as })).status
const told = ({ status, body }: { status: number; body: { error?: string } }) => [status, body.error]
const change = (clientId: string, scopes: string[]) =>
  api.call(`PUT /api/admin/oauth/clients/${clientId}`, {
    as: 'admin',
    json: { name: 'Lion Tracker', redirectUris: ['https://app.x.test/cb'], scopes },
  })

test('scopes taken from a client are gone from its codes, tokens and refresh tokens', async () => {
  const app = await oauthApplication(api, ana.user.id, { scopes: ['readonly', 'readwrite', 'storage:read'] })
  const wide = await app.granted(ana.token)
  const files = await app.granted(ana.token, { scope: 'readonly storage:read' })
  const narrow = await app.granted(ana.token, { scope: 'readonly' })
  const waiting = await app.approve(ana.token)
  for (const { access } of [wide, files, narrow]) assert.equal(await me(access), 200)
  assert.equal((await change(app.clientId, ['readonly'])).status, 200)
  assert.deepEqual(
    await Promise.all([wide, files, narrow].map(({ access }) => me(access))),
    [401, 401, 200],
    'before the answer',
  )
  assert.deepEqual(told(await app.refresh(wide.refresh)), [400, 'invalid_grant'])
  assert.deepEqual(told(await app.refresh(files.refresh)), [400, 'invalid_grant'])
  assert.deepEqual(told(await app.redeem(waiting)), [400, 'invalid_grant'])
  assert.equal((await app.refresh(narrow.refresh)).status, 200)
})

test('what ends tokens has dropped them from the caches of its process when it answers', async () => {
  for (const _ of [1, 2, 3, 4, 5]) {
    const app = await oauthApplication(api, ana.user.id)
    const { access } = await app.granted(ana.token)
    assert.equal(await me(access), 200)
    assert.equal((await api.call(`DELETE /api/admin/oauth/clients/${app.clientId}`, { as: 'admin' })).status, 204)
    assert.equal(await me(access), 401)
  }
  const app = await oauthApplication(api, ana.user.id)
  const { access } = await app.granted(ana.token)
  const json = { userId: ana.user.id, name: 'k', appId: app.appId }
  const { key } = (await api.call('POST /api/admin/api-keys', { as: 'admin', json })).body
  assert.deepEqual([await me(access), await me(key)], [200, 200])
  assert.equal((await api.call(`DELETE /api/admin/apps/${app.appId}`, { as: 'admin' })).status, 204)
  assert.deepEqual([await me(access), await me(key)], [401, 401])
})

test('a refresh that races the end of its grant leaves no token behind', async () => {
  const app = await oauthApplication(api, ana.user.id)
  for (const _ of [1, 2, 3, 4, 5]) {
    const { refresh } = await app.granted(ana.token)
    const [grant] = (await api.call('GET /api/auth/grants', { as: ana.token })).body
    const [renewed, ended] = await Promise.all([
      app.refresh(refresh),
      api.call(`DELETE /api/auth/grants/${grant.id}`, { as: ana.token }),
    ])
    assert.equal(ended.status, 204)
    if (renewed.status === 200) assert.equal(await me(renewed.body.access_token), 401)
  }
})

test('users see what they granted and end it; the client has to ask again', async () => {
  const app = await oauthApplication(api, ana.user.id)
  await api.sql('create table notes (id int primary key)')
  await eventually(async () => assert.equal((await app.approve(bo.token, { allowed_tables: ['notes'] })).status, 200))
  const { access, refresh } = await app.granted(bo.token, { scope: 'readonly', allowed_tables: ['notes'] })
  const list = async (as: string) => (await api.call('GET /api/auth/grants', { as })).body
  const [grant, ...others] = await list(bo.token)
  const { id, created_at, ...rest } = grant
  assert.deepEqual(
    [rest, others],
    [{ client_id: app.clientId, client_name: 'Lion Tracker', scope: 'readonly', allowed_tables: ['notes'] }, []],
  )
  assert.ok(Date.parse(created_at) > 0)
  const end = (as: string) => api.call(`DELETE /api/auth/grants/${id}`, { as })
  assert.deepEqual([(await end(ana.token)).status, (await end(access)).status], [404, 403])
  assert.equal(
    (await app.authorize(bo.token, { scope: 'readonly', allowed_tables: 'notes' })).body.requires_consent,
    false,
  )
  assert.equal((await end(bo.token)).status, 204)
  assert.deepEqual([await me(access), (await app.refresh(refresh)).body.error], [401, 'invalid_grant'])
  assert.deepEqual([await list(bo.token), (await end(bo.token)).body.message], [[], 'grant not found'])
  assert.equal(
    (await app.authorize(bo.token, { scope: 'readonly', allowed_tables: 'notes' })).body.requires_consent,
    true,
  )
  assert.equal((await api.call('DELETE /api/auth/grants/x', { as: bo.token })).status, 400)
  assert.equal((await api.call('GET /api/auth/grants')).status, 401)
})

test('refusals tell nothing of clients and repeat nothing that was sent', async () => {
  const { clientId } = await oauthApplication(api, ana.user.id, { clientType: 'confidential' })
  const open = await oauthApplication(api, ana.user.id)
  const ask = (form: Record<string, string>) =>
    api.call('POST /api/auth/token', { form: { grant_type: 'client_credentials', scope: 'readonly', ...form } })
  const refusals = [
    await ask({ client_id: 'svc_cid_unknown', client_secret: 'x' }),
    await ask({ client_id: clientId, client_secret: 'x' }),
    await ask({ client_id: clientId }),
    await ask({ client_id: open.clientId, client_secret: 'x' }),
  ]
  assert.deepEqual(new Set(refusals.map(({ status, text }) => `${status} ${text}`)).size, 1, refusals[0]?.text)
  const odd = await ask({ client_id: open.clientId, grant_type: '<script>alert(1)</script>' })
  assert.equal(odd.body.error, 'unsupported_grant_type')
  assert.ok(!odd.text.includes('alert'))
})

test('remembered consents are bounded for a user, and swept when they are old', async () => {
  const app = await oauthApplication(api, ana.user.id)
  const cy = await api.signUp('cy@x.test')
  const [client] = await api.sql('select id from svc.oauth_clients where client_id = $1', [app.clientId])
  await api.sql(
    `insert into svc.oauth_consents (user_id, client, redirect_uri, scope, tables, created_at)
     select $1, $2, 'https://x.test/' || n, 'readonly', '{}', now() - n * interval '1 day' from generate_series(1, 300) n`,
    [cy.user.id, client.id],
  )
  assert.equal((await app.approve(cy.token)).status, 200)
  const consents = async () =>
    (await api.sql('select created_at from svc.oauth_consents where user_id = $1', [cy.user.id])).length
  assert.equal(await consents(), 100)
  await api.sql(
    `update svc.oauth_consents set created_at = now() - interval '181 days' where redirect_uri like '%x.test/1_'`,
  )
  const cleanup = await api.call('POST /api/admin/jobs', { as: 'admin', json: { type: 'expired_oauth_cleanup' } })
  assert.ok(cleanup.status < 300, cleanup.text)
  await eventually(async () => assert.equal(await consents(), 90))
})

test('a client has at most 100 grants of a user; the oldest make room', async () => {
  const app = await oauthApplication(api, ana.user.id)
  const [client] = await api.sql('select id from svc.oauth_clients where client_id = $1', [app.clientId])
  await api.sql(
    `insert into svc.oauth_grants (id, client, user_id, scope, tables, created_at)
     select gen_random_uuid(), $1, $2, 'readonly', '{}', now() - n * interval '1 second' from generate_series(1, 120) n`,
    [client.id, bo.user.id],
  )
  const { access } = await app.granted(bo.token)
  assert.equal((await api.sql('select id from svc.oauth_grants where client = $1', [client.id])).length, 100)
  assert.equal(await me(access), 200)
})

test('on a database that takes no writes a revocation is 503', async () => {
  const app = await oauthApplication(api, ana.user.id)
  const { access, refresh } = await app.granted(ana.token)
  const name = new URL(api.databaseUrl).pathname.slice(1)
  await api.sql(`alter database ${name} set default_transaction_read_only = on`)
  await api.sql(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  )
  const refused = { error: 'temporarily_unavailable', error_description: 'database takes no writes' }
  for (const token of [access, refresh]) {
    await eventually(async () => {
      const { status, body } = await api.call('POST /api/auth/revoke', { form: { token } })
      assert.deepEqual([status, body], [503, refused])
    })
  }
  await api.sql(`begin read write; alter database ${name} reset default_transaction_read_only; commit`)
})
