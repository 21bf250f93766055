import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../kit/kit.ts'
import { upload } from '../kit/upload.ts'

const api = await startServer({ config: { 'auth.oauth_provider.enabled': true } })
const ada = await api.signUp('ada@example.test')
await api.sql('create table notes (id int primary key); create table hidden (id int primary key)')
await api.sql('revoke all on hidden from svc_anon, svc_authenticated')
await api.call('POST /api/admin/storage/buckets', { as: 'admin', json: { name: 'vault', public: false } })
await upload(api, '/api/storage/vault', { as: ada.token, name: 'diary.txt' })

const { id: appId } = (
  await api.call('POST /api/admin/apps', { as: 'admin', json: { name: 'app', ownerUserId: ada.user.id } })
).body
const client = (
  await api.call('POST /api/admin/oauth/clients', {
    as: 'admin',
    json: {
      appId,
      name: 'Client',
      redirectUris: ['https://app.test/cb'],
      scopes: ['readonly', 'readwrite', 'storage:read'],
    },
  })
).body
const credentials = { client_id: client.client.clientId, client_secret: client.clientSecret }
const verifier = 'v'.repeat(43)
const asking = {
  response_type: 'code',
  client_id: credentials.client_id,
  redirect_uri: 'https://app.test/cb',
  state: 's',
  code_challenge: Buffer.from(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))).toString(
    'base64url',
  ),
  code_challenge_method: 'S256',
}
const json = { accept: 'application/json' }

const consent = (scope: string, tables: string[]) =>
  api.call('POST /api/auth/authorize/consent', {
    as: ada.token,
    headers: json,
    json: { ...asking, decision: 'approve', scope, allowed_tables: tables },
  })
const oauthToken = async (scope: string, tables: string[]): Promise<string> => {
  const { body } = await consent(scope, tables)
  const code = new URL(body.redirect_to).searchParams.get('code') ?? ''
  const form = { grant_type: 'authorization_code', code, redirect_uri: asking.redirect_uri, code_verifier: verifier }
  const tokens = (await api.call('POST /api/auth/token', { form: { ...form, ...credentials } })).body
  assert.equal(tokens.scope, scope)
  return tokens.access_token
}
const keyOf = async (scope: string, allowedTables: string[]): Promise<string> =>
  (await api.call('POST /api/auth/api-keys', { as: ada.token, json: { name: 'k', scope, allowedTables } })).body.key

/** The statuses of: list, read, sign, upload, replace, delete. */
const reach = async (as: string): Promise<string> => {
  const answers = [
    await api.call('GET /api/storage/vault', { as }),
    await api.call('GET /api/storage/vault/diary.txt', { as }),
    await api.call('POST /api/storage/vault/diary.txt/sign', { as }),
    await upload(api, '/api/storage/vault', { as, name: 'new.txt' }),
    await upload(api, '/api/storage/vault', { as, name: 'diary.txt' }),
    await api.call('DELETE /api/storage/vault/new.txt', { as }),
  ]
  await upload(api, '/api/storage/vault', { as: ada.token, name: 'new.txt' })
  return answers.map(({ status }) => status).join(' ')
}
const NOTHING = '403 403 403 403 403 403'
const READS = '200 200 200 403 403 403'
const WRITES = '403 403 403 201 201 204'
const ALL = '200 200 200 201 201 204'

test('a key limited to tables reaches files only with a storage word', async () => {
  const expected: [string, string[], string][] = [
    ['readwrite', ['notes'], NOTHING],
    ['*', ['notes'], NOTHING],
    ['readwrite storage:read', ['notes'], READS],
    ['readwrite storage:write', ['notes'], WRITES],
    ['readwrite storage:read storage:write', ['notes'], ALL],
    ['readwrite', [], ALL],
    ['readonly', [], READS],
    ['readonly storage:read', [], READS],
  ]
  for (const [scope, tables, rights] of expected) {
    assert.equal(await reach(await keyOf(scope, tables)), rights, `${scope} in ${tables}`)
  }
  const limited = await keyOf('*', ['notes'])
  const { body } = await api.call('GET /api/storage/vault', { as: limited })
  assert.deepEqual([body.error, body.message], ['insufficient_scope', 'api key does not have access to files'])
  const reader = await keyOf('readonly storage:read', ['notes'])
  assert.equal((await api.call('POST /api/collections/notes', { as: reader, json: { id: 1 } })).status, 403)
})

test('so does an OAuth token, and its client asks for words of its list', async () => {
  assert.equal(await reach(await oauthToken('readwrite', ['notes'])), NOTHING)
  assert.equal(await reach(await oauthToken('readwrite storage:read', ['notes'])), READS)
  assert.equal(await reach(await oauthToken('readwrite', [])), ALL)
  assert.equal((await consent('readwrite storage:write', ['notes'])).body.error, 'invalid_scope')
  const form = { grant_type: 'client_credentials', scope: 'readonly', allowed_tables: 'notes', ...credentials }
  const robot = (await api.call('POST /api/auth/token', { form })).body.access_token
  assert.equal((await api.call('GET /api/storage/vault', { as: robot })).status, 403)
})

test('a scope has one word about data; the same words are the same scope', async () => {
  for (const scope of [
    'storage:read',
    'readonly *',
    'readonly storage:all',
    'readonly storage:write',
    'readonly storage:read storage:write',
    'readonly  storage:read',
    'readonly readonly',
    '',
  ])
    assert.equal(
      (await api.call('POST /api/auth/api-keys', { as: ada.token, json: { name: 'k', scope } })).status,
      400,
      scope,
    )
  const { body } = await api.call('POST /api/auth/api-keys', {
    as: ada.token,
    json: { name: 'k', scope: 'storage:write storage:read *' },
  })
  assert.equal(body.apiKey.scope, '* storage:read storage:write')
  await consent('readonly storage:read', ['notes'])
  const again = new URLSearchParams({ ...asking, scope: 'storage:read readonly', allowed_tables: 'notes' })
  const answer = await api.call(`GET /api/auth/authorize?${again}`, { as: ada.token, headers: json })
  assert.equal(answer.body.requires_consent, false)
})

test('tables that do not exist for users are not shown to them for consent', async () => {
  for (const name of ['nope', 'hidden', 'svc.users', 'constructor']) {
    const query = new URLSearchParams({ ...asking, scope: 'readonly', allowed_tables: `notes,${name}` })
    const prompt = await api.call(`GET /api/auth/authorize?${query}`, { as: ada.token, headers: json })
    for (const { status, body } of [prompt, await consent('readonly', ['notes', name])]) {
      assert.equal(status, 400)
      assert.deepEqual(body, {
        error: 'invalid_request',
        error_description: 'allowed_tables names a table that does not exist',
      })
    }
  }
})
