import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { authenticator } from '../../../test/fakes/authenticator.ts'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { eventually, spawnServer, startServer, type TestServer } from '../../../test/kit/kit.ts'

const CONFIG = { 'auth.oauth_provider.enabled': true, 'server.cors_origins': ['https://app.test'] }
const api = await startServer({ config: CONFIG })
const other = await spawnServer({ config: CONFIG, on: api })
const guests = await startServer({
  config: { ...CONFIG, 'auth.anonymous_auth_enabled': true, 'auth.totp_enabled': true },
  on: api,
})
const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
await api.sql(`create table notes (id int primary key, owner text); create table tasks (id int primary key);
  insert into notes values (1, 'x');
  create function who() returns text language sql stable as $$ select current_setting('svc.user_id', true) $$`)

const REDIRECT = 'https://app.test/cb'
const { id: appId } = (
  await api.call('POST /api/admin/apps', { as: 'admin', json: { name: 'app', ownerUserId: ana.user.id } })
).body

const register = async (fields: Record<string, unknown> = {}) => {
  const json = { appId, name: 'Client', redirectUris: [REDIRECT], scopes: ['readonly', 'readwrite'], ...fields }
  const { status, body } = await api.call('POST /api/admin/oauth/clients', { as: 'admin', json })
  assert.equal(status, 201, JSON.stringify(body))
  return { id: body.client.clientId as string, secret: body.clientSecret as string | undefined }
}
const confidential = await register()
const open = await register({ clientType: 'public', redirectUris: [REDIRECT, 'http://127.0.0.1/cb'] })

const pkce = () => {
  const verifier = randomBytes(32).toString('base64url')
  return { verifier, challenge: createHash('sha256').update(verifier).digest('base64url') }
}
const proof = pkce()
const asking = (fields: Record<string, string | undefined> = {}) => ({
  response_type: 'code',
  client_id: confidential.id,
  redirect_uri: REDIRECT,
  scope: 'readwrite',
  state: 'st/ät=&é',
  code_challenge: proof.challenge,
  code_challenge_method: 'S256',
  ...fields,
})
const queryOf = (fields: Record<string, string | undefined>) =>
  new URLSearchParams(Object.entries(fields).filter((entry): entry is [string, string] => entry[1] !== undefined))
const authorize = (fields: Record<string, string | undefined> = {}, as: string = ana.token) =>
  api.call(`GET /api/auth/authorize?${queryOf(asking(fields))}`, { as, headers: { accept: 'application/json' } })
const consent = (fields: Record<string, unknown> = {}, as: string = ana.token) =>
  api.call('POST /api/auth/authorize/consent', {
    as,
    json: { decision: 'approve', ...asking(), ...fields },
    headers: { accept: 'application/json' },
  })
const codeFor = async (fields: Record<string, unknown> = {}, as?: string) => {
  const { status, body } = await consent(fields, as)
  assert.equal(status, 200, JSON.stringify(body))
  return new URL(body.redirect_to).searchParams.get('code') ?? ''
}
const basic = ({ id, secret }: { id: string; secret?: string | undefined }) =>
  `Basic ${Buffer.from(`${id}:${secret ?? ''}`).toString('base64')}`
const token = (
  form: Record<string, string>,
  headers: Record<string, string> = { authorization: basic(confidential) },
  at: TestServer = api,
) => at.call('POST /api/auth/token', { form, headers })
const exchange = (code: string, fields: Record<string, string> = {}, at: TestServer = api) =>
  token(
    { grant_type: 'authorization_code', code, redirect_uri: REDIRECT, code_verifier: proof.verifier, ...fields },
    undefined,
    at,
  )
const works = async (bearer: string) => (await api.call('GET /api/collections/notes', { as: bearer })).status

test('a code becomes tokens that act for the user, within their scope', async () => {
  const prompt = await authorize()
  assert.deepEqual(prompt.body, {
    requires_consent: true,
    client_id: confidential.id,
    client_name: 'Client',
    redirect_uri: REDIRECT,
    scope: 'readwrite',
    state: 'st/ät=&é',
    code_challenge: proof.challenge,
    code_challenge_method: 'S256',
  })
  const approved = await consent()
  const target = new URL(approved.body.redirect_to)
  assert.deepEqual([target.origin + target.pathname, target.searchParams.get('state')], [REDIRECT, 'st/ät=&é'])
  assert.equal(target.searchParams.get('iss'), `http://localhost:${new URL(api.url).port}`)
  const answer = await exchange(target.searchParams.get('code') ?? '')
  assert.equal(answer.status, 200)
  assert.equal(answer.headers.get('cache-control'), 'no-store')
  assert.match(answer.body.access_token, /^svc_at_[0-9a-f]{64}$/)
  assert.match(answer.body.refresh_token, /^svc_rt_[0-9a-f]{64}$/)
  assert.deepEqual([answer.body.token_type, answer.body.expires_in, answer.body.scope], ['Bearer', 3600, 'readwrite'])
  assert.equal((await api.call('POST /api/rpc/who', { as: answer.body.access_token })).body, ana.user.id)
  assert.equal((await api.call('GET /api/auth/me', { as: answer.body.access_token })).body.email, 'ana@x.test')
  assert.equal(
    (await api.call('DELETE /api/auth/me', { as: answer.body.access_token })).body.message,
    'API keys cannot be used here',
  )
  const rows = await api.sql(
    'select hash from svc.oauth_access_tokens union all select hash from svc.oauth_refresh_tokens union all select hash from svc.oauth_codes',
  )
  assert.ok(rows.every(({ hash }) => /^[0-9a-f]{64}$/.test(hash) && !answer.text.includes(hash)))
})

test('what was agreed to once is not asked again, and anything else is', async () => {
  assert.equal((await authorize()).body.requires_consent, false)
  const redirected = await api.call(`GET /api/auth/authorize?${queryOf(asking())}`, { as: ana.token })
  assert.equal(redirected.status, 302)
  assert.match(redirected.headers.get('location') ?? '', /^https:\/\/app\.test\/cb\?code=[0-9a-f]{64}&state=/)
  assert.equal(redirected.headers.get('referrer-policy'), 'no-referrer')
  assert.equal((await authorize({ scope: 'readonly' })).body.requires_consent, true)
  assert.equal((await authorize({ allowed_tables: 'notes' })).body.requires_consent, true)
  assert.equal((await authorize({}, bo.token)).body.requires_consent, true)
  const denied = await consent({ decision: 'deny', scope: 'readonly' })
  const target = new URL(denied.body.redirect_to).searchParams
  assert.deepEqual([target.get('error'), target.get('code'), target.has('iss')], ['access_denied', null, true])
  assert.equal((await authorize({ scope: 'readonly' })).body.requires_consent, true)
})

test('tables and scope of a grant are in front of every route', async () => {
  const tables = ['tasks', 'notes']
  const narrow = (await exchange(await codeFor({ allowed_tables: tables, scope: 'readonly' }))).body.access_token
  assert.deepEqual(
    (await authorize({ allowed_tables: 'notes, tasks', scope: 'readonly' })).body.requires_consent,
    false,
  )
  assert.equal(await works(narrow), 200)
  const write = await api.call('POST /api/collections/notes', { as: narrow, json: { id: 9 } })
  assert.deepEqual([write.status, write.body.message], [403, 'api key scope does not permit write operations'])
  const only = (await exchange(await codeFor({ allowed_tables: ['tasks'] }))).body.access_token
  assert.equal(await works(only), 403)
})

test('authorize refuses in the order and the words of the protocol, and never redirects', async () => {
  const cases: [Record<string, string | undefined>, number, string][] = [
    [{ client_id: 'svc_cid_nobody' }, 401, 'invalid_client'],
    [{ client_id: undefined }, 401, 'invalid_client'],
    [{ redirect_uri: undefined }, 400, 'invalid_request'],
    [{ redirect_uri: 'https://app.test/cb/' }, 400, 'invalid_request'],
    [{ redirect_uri: 'https://app.test/cb?x=1' }, 400, 'invalid_request'],
    [{ redirect_uri: 'https://app.test/CB' }, 400, 'invalid_request'],
    [{ redirect_uri: 'https://app.test./cb' }, 400, 'invalid_request'],
    [{ redirect_uri: 'https://app.test:444/cb' }, 400, 'invalid_request'],
    [{ redirect_uri: 'http://127.0.0.1/cb' }, 400, 'invalid_request'],
    [{ response_type: 'token' }, 400, 'unsupported_response_type'],
    [{ response_type: undefined }, 400, 'invalid_request'],
    [{ scope: undefined }, 400, 'invalid_request'],
    [{ scope: 'admin' }, 400, 'invalid_scope'],
    [{ scope: 'readonly readwrite' }, 400, 'invalid_scope'],
    [{ scope: '*' }, 400, 'invalid_scope'],
    [{ code_challenge: undefined }, 400, 'invalid_request'],
    [{ code_challenge: 'short' }, 400, 'invalid_request'],
    [{ code_challenge_method: 'plain' }, 400, 'invalid_request'],
    [{ code_challenge_method: undefined }, 400, 'invalid_request'],
  ]
  for (const [fields, status, error] of cases) {
    for (const answer of [await authorize(fields), await consent(fields)]) {
      assert.deepEqual([answer.status, answer.body.error], [status, error], JSON.stringify(fields))
      assert.equal(answer.headers.get('location'), null)
      assert.equal(answer.headers.get('www-authenticate'), null, 'a browser would ask for a password')
    }
  }
  assert.equal((await consent({ decision: 'maybe' })).body.error, 'invalid_request')
  assert.equal((await consent({ allowed_tables: 'notes' })).body.error, 'invalid_request')
  const twice = await api.call(`GET /api/auth/authorize?${queryOf(asking())}&scope=readonly`, { as: ana.token })
  assert.deepEqual([twice.status, twice.body.error], [400, 'invalid_request'])
})

test('only a person with a session of their own can be asked', async () => {
  const { body } = await api.call('POST /api/auth/api-keys', { as: ana.token, json: { name: 'k' } })
  const at = (await exchange(await codeFor())).body.access_token
  for (const bearer of [body.key, at]) {
    const answer = await authorize({}, bearer)
    assert.deepEqual([answer.status, answer.body.message], [403, 'API keys cannot be used here'])
  }
  assert.equal((await api.call(`GET /api/auth/authorize?${queryOf(asking())}`)).status, 401)
  assert.equal((await authorize({}, await api.adminToken())).status, 401)

  const visitor = (await guests.call('POST /api/auth/anonymous')).body.token
  assert.deepEqual((await authorize({}, visitor)).body, {
    code: 401,
    error: 'unauthorized',
    message: 'not authenticated',
  })
  assert.equal((await consent({}, visitor)).status, 401)
  const mia = await guests.signUp('mia@x.test')
  const enrolled = await guests.call('POST /api/auth/mfa/totp/enroll', { as: mia.token })
  const json = { code: authenticator(enrolled.body.uri).code() }
  await guests.call('POST /api/auth/mfa/totp/enroll/confirm', { as: mia.token, json })
  const login = { email: 'mia@x.test', password: 'long enough password' }
  const pending = (await guests.call('POST /api/auth/login', { json: login })).body.mfa_token
  assert.deepEqual((await authorize({}, pending)).body, {
    code: 401,
    error: 'mfa_required',
    message: 'MFA verification required',
  })
})

test('tokens count on the limit of their app', async () => {
  const made = (
    await api.call('POST /api/admin/apps', { as: 'admin', json: { name: 'limited', ownerUserId: ana.user.id } })
  ).body
  const limits = { name: 'limited', rateLimitRps: 2, rateLimitWindowSeconds: 600 }
  await api.call(`PUT /api/admin/apps/${made.id}`, { as: 'admin', json: limits })
  const client = await register({ appId: made.id })
  const form = { grant_type: 'client_credentials', scope: 'readonly' }
  const { access_token } = (await token(form, { authorization: basic(client) })).body
  const calls = [await works(access_token), await works(access_token)]
  assert.deepEqual(calls, [200, 200])
  const over = await other.call('GET /api/collections/notes', { as: access_token })
  assert.deepEqual([over.status, over.body.message], [429, 'app rate limit exceeded'])
  assert.equal(over.headers.get('x-app-ratelimit-limit'), '2')
})

test('a loopback address may have any port, and no other address may', async () => {
  const at = (redirect_uri: string) => authorize({ client_id: open.id, redirect_uri })
  assert.equal((await at('http://127.0.0.1:51234/cb')).status, 200)
  for (const uri of [
    'http://127.0.0.1:51234/cb/x',
    'http://localhost:51234/cb',
    'http://127.0.0.1:99999/cb',
    'http://127.0.0.1.evil.test/cb',
  ]) {
    assert.equal((await at(uri)).status, 400, uri)
  }
})

test('a code is bound to client, address and verifier; a wrong try does not spend it', async () => {
  const code = await codeFor()
  const wrong = { ...proof, verifier: pkce().verifier }.verifier
  const cases: [Record<string, string>, string][] = [
    [{ code_verifier: wrong }, 'invalid_grant'],
    [{ code_verifier: 'short' }, 'invalid_grant'],
    [{ code_verifier: 'x'.repeat(129) }, 'invalid_grant'],
    [{ code_verifier: '' }, 'invalid_request'],
    [{ redirect_uri: 'https://app.test/other' }, 'invalid_grant'],
    [{ redirect_uri: '' }, 'invalid_request'],
    [{ code: 'f'.repeat(64) }, 'invalid_grant'],
    [{ code: '' }, 'invalid_request'],
  ]
  for (const [fields, error] of cases) {
    const answer = await exchange(code, fields)
    assert.deepEqual([answer.status, answer.body.error], [400, error], JSON.stringify(fields))
  }
  const form = {
    grant_type: 'authorization_code',
    code,
    redirect_uri: REDIRECT,
    code_verifier: proof.verifier,
    client_id: open.id,
  }
  assert.equal((await token(form, {})).body.error, 'invalid_grant')
  assert.equal((await exchange(code)).status, 200)
  const expired = await codeFor()
  await api.sql(`update svc.oauth_codes set expires_at = now() - interval '1 second' where used_at is null`)
  assert.equal((await exchange(expired)).body.error, 'invalid_grant')
})

test('a code that is redeemed twice ends what it issued', async () => {
  const code = await codeFor()
  const { access_token, refresh_token } = (await exchange(code)).body
  assert.equal(await works(access_token), 200)
  assert.equal((await exchange(code)).body.error, 'invalid_grant')
  assert.equal(await works(access_token), 401)
  await eventually(async () =>
    assert.equal((await other.call('GET /api/collections/notes', { as: access_token })).status, 401),
  )
  assert.equal((await token({ grant_type: 'refresh_token', refresh_token })).body.error, 'invalid_grant')
})

test('of twenty parallel exchanges of a code over two processes one wins, and the rest are its replay', async () => {
  const code = await codeFor()
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => exchange(code, {}, i % 2 ? other : api)))
  const won = answers.filter(({ status }) => status === 200)
  assert.equal(won.length, 1)
  assert.ok(answers.every(({ status, body }) => status === 200 || body.error === 'invalid_grant'))
  await eventually(async () => assert.equal(await works(won[0]?.body.access_token), 401))
})

test('a refresh token rotates, and its reuse ends the grant', async () => {
  const first = (await exchange(await codeFor())).body
  const second = await token({ grant_type: 'refresh_token', refresh_token: first.refresh_token })
  assert.equal(second.status, 200)
  assert.equal(await works(second.body.access_token), 200)
  const wider = await token({ grant_type: 'refresh_token', refresh_token: second.body.refresh_token, scope: '*' })
  assert.equal(wider.body.error, 'invalid_scope')
  const foreign = await token(
    { grant_type: 'refresh_token', refresh_token: second.body.refresh_token, client_id: open.id },
    {},
  )
  assert.equal(foreign.body.error, 'invalid_grant')
  assert.equal(
    (await token({ grant_type: 'refresh_token', refresh_token: first.refresh_token })).body.error,
    'invalid_grant',
  )
  for (const { access_token } of [first, second.body]) assert.equal(await works(access_token), 401)

  const third = (await exchange(await codeFor())).body
  const race = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      token({ grant_type: 'refresh_token', refresh_token: third.refresh_token }, undefined, i % 2 ? other : api),
    ),
  )
  assert.equal(race.filter(({ status }) => status === 200).length, 1)
  await eventually(async () => assert.equal(await works(third.access_token), 401))
})

test('a client can act for itself, and is then nobody', async () => {
  const form = { grant_type: 'client_credentials', scope: 'readonly', allowed_tables: 'notes' }
  const answer = await token(form)
  assert.equal(answer.status, 200)
  assert.equal(answer.body.refresh_token, undefined)
  assert.equal(await works(answer.body.access_token), 200)
  assert.equal((await api.call('GET /api/collections/tasks', { as: answer.body.access_token })).status, 403)
  const me = await api.call('GET /api/auth/me', { as: answer.body.access_token })
  assert.deepEqual([me.status, me.body.message], [401, 'not authenticated'])
  assert.equal((await token({ ...form, scope: '*' })).body.error, 'invalid_scope')
  assert.equal((await token({ grant_type: 'client_credentials' })).body.error, 'invalid_request')
  assert.equal((await token({ ...form, client_id: open.id }, {})).body.error, 'unauthorized_client')
})

test('clients prove themselves in one way, and the refusal says how', async () => {
  const form = { grant_type: 'client_credentials', scope: 'readonly' }
  const { id, secret = '' } = confidential
  const good = [
    await token(form),
    await token({ ...form, client_id: id, client_secret: secret }, {}),
    await token({ ...form, client_id: id }),
  ]
  assert.deepEqual(
    good.map(({ status }) => status),
    [200, 200, 200],
  )
  const bad: [Record<string, string>, Record<string, string>, number, string][] = [
    [form, {}, 401, 'invalid_client'],
    [form, { authorization: basic({ id, secret: 'wrong' }) }, 401, 'invalid_client'],
    [form, { authorization: basic({ id }) }, 401, 'invalid_client'],
    [form, { authorization: basic({ id: 'nobody', secret }) }, 401, 'invalid_client'],
    [form, { authorization: 'Basic !!!' }, 401, 'invalid_client'],
    [{ ...form, client_id: id }, {}, 401, 'invalid_client'],
    [{ ...form, client_id: open.id, client_secret: 'x' }, {}, 401, 'invalid_client'],
    [{ ...form, client_id: id, client_secret: secret }, { authorization: basic(confidential) }, 400, 'invalid_request'],
    [{ ...form, client_id: open.id }, { authorization: basic(confidential) }, 400, 'invalid_request'],
    [{ scope: 'readonly' }, { authorization: basic(confidential) }, 400, 'invalid_request'],
    [{ ...form, grant_type: 'password' }, { authorization: basic(confidential) }, 400, 'unsupported_grant_type'],
  ]
  for (const [fields, headers, status, error] of bad) {
    const answer = await token(fields, headers)
    assert.deepEqual([answer.status, answer.body.error], [status, error], JSON.stringify([fields, headers]))
    assert.equal(answer.headers.get('www-authenticate')?.startsWith('Basic') ?? false, status === 401)
    assert.equal(answer.headers.get('cache-control'), 'no-store')
  }
  const asJson = await api.call('POST /api/auth/token', { json: form })
  assert.deepEqual([asJson.status, asJson.body.error], [400, 'invalid_request'])
  const twice = await api.call('POST /api/auth/token', {
    body: 'grant_type=client_credentials&scope=readonly&scope=readwrite',
    headers: { 'content-type': 'application/x-www-form-urlencoded', authorization: basic(confidential) },
  })
  assert.equal(twice.body.error, 'invalid_request')
})

test('revoking is 200 for every token, and ends what it should', async () => {
  const revoke = (form: Record<string, string>, headers: Record<string, string> = {}) =>
    api.call('POST /api/auth/revoke', { form, headers })
  const one = (await exchange(await codeFor())).body
  assert.equal(
    (await revoke({ token: one.access_token }, { authorization: basic({ id: open.id, secret: 'x' }) })).status,
    401,
  )
  assert.equal((await revoke({ token: one.access_token, client_id: open.id })).status, 200)
  assert.equal(await works(one.access_token), 200)
  const ended = await revoke({ token: one.access_token })
  assert.deepEqual([ended.status, ended.text], [200, ''])
  assert.equal(await works(one.access_token), 401)
  assert.equal((await token({ grant_type: 'refresh_token', refresh_token: one.refresh_token })).status, 200)
  const two = (await exchange(await codeFor())).body
  const next = (await token({ grant_type: 'refresh_token', refresh_token: two.refresh_token })).body
  assert.equal(
    (
      await revoke(
        { token: two.refresh_token, token_type_hint: 'refresh_token' },
        { authorization: basic(confidential) },
      )
    ).status,
    200,
  )
  assert.equal(await works(next.access_token), 401)
  assert.equal((await revoke({ token: 'svc_at_unknown' })).status, 200)
  assert.equal((await revoke({})).body.error, 'invalid_request')
})

test('a reset password, a deleted user, client or app end what they gave', async () => {
  const eva = await api.signUp('eva@x.test')
  const first = (await exchange(await codeFor({}, eva.token))).body.access_token
  assert.equal(await works(first), 200)
  await api.call('POST /api/auth/password-reset', { json: { email: 'eva@x.test' } })
  const reset = await eventually(() => {
    const [mail] = mailbox(api)
      .mails('eva@x.test')
      .filter(({ subject }) => subject === 'Reset your password')
    return /token=([\w-]+)/.exec(mail?.text ?? 'x')?.[1] ?? assert.fail('no mail yet')
  })
  await api.call('POST /api/auth/password-reset/confirm', { json: { token: reset, password: 'another password' } })
  await eventually(async () => assert.equal(await works(first), 401))
  const again = await api.call('POST /api/auth/login', { json: { email: 'eva@x.test', password: 'another password' } })
  const second = (await exchange(await codeFor({}, again.body.token))).body.access_token
  await api.call(`DELETE /api/admin/users/${eva.user.id}`, { as: 'admin' })
  await eventually(async () => assert.equal(await works(second), 401))

  const made = await register()
  const itself = async (client: { id: string; secret?: string | undefined }) =>
    (await token({ grant_type: 'client_credentials', scope: 'readonly' }, { authorization: basic(client) })).body
  const { access_token } = await itself(made)
  assert.equal(await works(access_token), 200)
  assert.equal((await api.call(`DELETE /api/admin/oauth/clients/${made.id}`, { as: 'admin' })).status, 204)
  await eventually(async () => assert.equal(await works(access_token), 401))
  assert.equal((await itself(made)).error, 'invalid_client')
  assert.equal((await api.call(`DELETE /api/admin/oauth/clients/${made.id}`, { as: 'admin' })).status, 204)

  const app = (await api.call('POST /api/admin/apps', { as: 'admin', json: { name: 'b', ownerUserId: bo.user.id } }))
    .body
  const appClient = await register({ appId: app.id })
  const appToken = (await itself(appClient)).access_token
  assert.equal((await api.call(`DELETE /api/admin/apps/${app.id}`, { as: 'admin' })).status, 204)
  await eventually(async () => assert.equal(await works(appToken), 401))
  assert.ok((await api.call(`GET /api/admin/oauth/clients/${appClient.id}`, { as: 'admin' })).body.revokedAt)
})

test('the operator registers, changes, counts and rotates clients', async () => {
  const bad: [Record<string, unknown>, string][] = [
    [{ name: '' }, 'name is required'],
    [{ appId: undefined }, 'appId is required'],
    [{ appId: 'x' }, 'invalid appId format'],
    [{ appId: '00000000-0000-4000-8000-000000000000' }, 'app not found'],
    [{ clientType: 'odd' }, 'invalid client type'],
    [{ redirectUris: [] }, 'at least one redirect URI is required'],
    [{ scopes: [] }, 'at least one scope is required'],
    [{ scopes: ['all'] }, 'invalid scope: all'],
    ...[
      'javascript:alert(1)',
      'http://evil.test/cb',
      'https://app.test/cb#x',
      'https://app.test/cb?x=1',
      'https://*.app.test/cb',
      'https://u:p@app.test/cb',
      '/cb',
      'ftp://app.test',
    ].map((uri): [Record<string, unknown>, string] => [{ redirectUris: [uri] }, `invalid redirect URI: ${uri}`]),
  ]
  for (const [fields, message] of bad) {
    const json = { appId, name: 'x', redirectUris: [REDIRECT], scopes: ['*'], ...fields }
    const answer = await api.call('POST /api/admin/oauth/clients', { as: 'admin', json })
    assert.deepEqual([answer.status, answer.body.message], [400, message])
  }
  const made = await register({ redirectUris: ['http://localhost:3000/cb', 'http://[::1]/cb'], scopes: ['*'] })
  assert.match(made.id, /^svc_cid_[0-9a-f]{32}$/)
  assert.match(made.secret ?? '', /^svc_cs_[0-9a-f]{64}$/)
  assert.equal(open.secret, undefined)
  const changed = await api.call(`PUT /api/admin/oauth/clients/${made.id}`, {
    as: 'admin',
    json: { name: 'New', redirectUris: [REDIRECT], scopes: ['readonly'] },
  })
  assert.deepEqual(
    [changed.body.name, changed.body.redirectUris, changed.body.scopes],
    ['New', [REDIRECT], ['readonly']],
  )
  const rotated = await api.call(`POST /api/admin/oauth/clients/${made.id}/rotate-secret`, { as: 'admin' })
  const form = { grant_type: 'client_credentials', scope: 'readonly' }
  assert.equal((await token(form, { authorization: basic(made) })).status, 401)
  assert.equal(
    (await token(form, { authorization: basic({ id: made.id, secret: rotated.body.clientSecret }) })).status,
    200,
  )
  const shown = (await api.call(`GET /api/admin/oauth/clients/${made.id}`, { as: 'admin' })).body
  assert.deepEqual([shown.activeAccessTokenCount, shown.totalGrants, typeof shown.lastTokenIssuedAt], [1, 0, 'string'])
  assert.equal(
    (await api.call(`POST /api/admin/oauth/clients/${open.id}/rotate-secret`, { as: 'admin' })).body.message,
    'public clients have no secret',
  )
  assert.equal(
    (await api.call('GET /api/admin/oauth/clients/nobody', { as: 'admin' })).body.message,
    'oauth client not found',
  )
  await api.call(`DELETE /api/admin/oauth/clients/${made.id}`, { as: 'admin' })
  for (const call of ['rotate-secret'] as const) {
    assert.equal(
      (await api.call(`POST /api/admin/oauth/clients/${made.id}/${call}`, { as: 'admin' })).body.message,
      'oauth client has been revoked',
    )
  }
  const page = (await api.call('GET /api/admin/oauth/clients?perPage=1', { as: 'admin' })).body
  assert.deepEqual([page.items.length, page.perPage, page.totalItems > 2], [1, 1, true])
})

test('pages of every origin may ask for tokens and metadata, and for nothing else', async () => {
  const from = { origin: 'https://elsewhere.test' }
  const metadata = await api.call('GET /.well-known/oauth-authorization-server', { headers: from })
  assert.equal(metadata.headers.get('access-control-allow-origin'), '*')
  assert.equal(metadata.body.issuer, `http://localhost:${new URL(api.url).port}`)
  assert.equal(metadata.body.authorization_endpoint, `${metadata.body.issuer}/oauth/consent`)
  const preflight = { ...from, 'access-control-request-method': 'POST' }
  const answer = await api.call('OPTIONS /api/auth/token', { headers: preflight })
  assert.deepEqual([answer.status, answer.headers.get('access-control-allow-origin')], [204, '*'])
  assert.match(answer.headers.get('access-control-allow-headers') ?? '', /Authorization/)
  assert.equal((await api.call('GET /api/auth/me', { headers: from })).headers.get('access-control-allow-origin'), null)
})

test('a build serves the consent page that the sources make', async () => {
  const [fromSources, fromBuild] = [await api.call('GET /oauth/consent'), await other.call('GET /oauth/consent')]
  assert.equal(fromBuild.status, 200)
  assert.equal(fromBuild.text, fromSources.text)
})

test('switched off, none of it is there', async () => {
  const off = await startServer({ on: api })
  const at = (await exchange(await codeFor())).body.access_token
  assert.equal((await off.call('GET /api/collections/notes', { as: at })).status, 401)
  for (const line of [
    'GET /api/auth/authorize',
    'POST /api/auth/token',
    'POST /api/auth/revoke',
    'GET /.well-known/oauth-authorization-server',
    'GET /oauth/consent',
  ] as const) {
    const answer = await off.call(line, { as: ana.token })
    assert.deepEqual([answer.status, answer.body.message], [404, 'OAuth provider mode is not enabled'], line)
  }
  assert.equal((await off.call('GET /api/admin/oauth/clients', { as: 'admin' })).status, 404)
})

test('a token that is over opens nothing', async () => {
  const { access_token } = (await exchange(await codeFor())).body
  await api.sql(`update svc.oauth_access_tokens set expires_at = now() - interval '1 second'`)
  const answer = await api.call('GET /api/collections/notes', { as: access_token })
  assert.deepEqual([answer.status, answer.body.message], [401, 'invalid or expired token'])
})

test('no code, token or secret reaches the log', async () => {
  const code = await codeFor()
  const { access_token, refresh_token } = (await exchange(code)).body
  await works(access_token)
  const log = JSON.stringify(api.observations)
  for (const secret of [code, access_token, refresh_token, confidential.secret ?? '']) assert.ok(!log.includes(secret))
})

test('what is expired is swept', async () => {
  await exchange(await codeFor())
  await api.sql(`update svc.oauth_codes set expires_at = now() - interval '1 day'; update svc.oauth_access_tokens set expires_at = now() - interval '1 day';
    update svc.oauth_refresh_tokens set expires_at = now() - interval '1 day'; update svc.oauth_grants set created_at = now() - interval '1 day'`)
  assert.ok(((await api.app.cleanups['expired_oauth_cleanup']?.()) ?? 0) > 0)
  assert.deepEqual(await api.sql('select 1 from svc.oauth_grants'), [])
})
