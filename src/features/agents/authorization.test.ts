import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { AGENTS, agentTokens, agentTools, registerAgent, resourceOf, rpc } from '../../../test/kit/agents.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { ...AGENTS, 'server.cors_origins': ['https://app.test'] } })
const off = await startServer({ config: { 'auth.oauth_provider.enabled': true }, on: api })
const ana = await api.signUp('ana@x.test')
await api.sql(`create table notes (id int primary key, title text); create table secrets (id int primary key, t text);
  grant all on notes, secrets to svc_authenticated; create function f() returns int language sql as 'select 1'`)
await eventually(async () =>
  assert.equal((await api.call('GET /api/collections/notes', { as: ana.token })).status, 200),
)
const tokens = await agentTokens(api, ana)

const post = (options: Parameters<typeof api.call>[1] = {}, query = '') =>
  api.call(`POST /api/mcp${query}` as 'POST /api/mcp', { json: { jsonrpc: '2.0', id: 1, method: 'ping' }, ...options })

test('without a token the answer names the metadata and one scope', async () => {
  const { status, headers } = await post()
  assert.equal(status, 401)
  const metadata = `${new URL(resourceOf(api)).origin}/.well-known/oauth-protected-resource/api/mcp`
  assert.equal(headers.get('www-authenticate'), `Bearer resource_metadata="${metadata}", scope="readwrite"`)
  assert.match((await post({}, '?read_only=true')).headers.get('www-authenticate') ?? '', /scope="readonly"/)
  for (const place of ['', '/api/mcp']) {
    const { body } = await api.call(`GET /.well-known/oauth-protected-resource${place as ''}`)
    assert.equal(body.resource, resourceOf(api))
    assert.equal(body.scopes_supported, undefined)
    assert.deepEqual(body.authorization_servers, [new URL(resourceOf(api)).origin])
  }
})

test('tokens are good for their resource and nowhere else, both ways', async () => {
  assert.equal((await post({ as: tokens.access })).status, 200)
  const elsewhere = [
    'GET /api/collections/notes',
    'GET /api/auth/me',
    'POST /api/graphql',
    'GET /api/schema',
    'POST /api/rpc/f',
  ] as const
  for (const line of elsewhere) {
    assert.equal(
      (await api.call(line, { as: tokens.access, ...(line.startsWith('POST') && { json: {} }) })).status,
      401,
      line,
    )
  }
  assert.equal((await api.call('GET /api/realtime', { as: tokens.access })).status, 401)
  const key = await api.call('POST /api/auth/api-keys', { as: ana.token, json: { name: 'k' } })
  for (const as of [ana.token, key.body.key, 'svc_at_00']) assert.equal((await post({ as })).status, 401)
  const admin = await post({ as: 'admin' })
  assert.equal(admin.status, 403)
  assert.match(admin.body.message, /admin token/)
})

test('API keys work where the operator wants them', async () => {
  const open = await startServer({ config: { ...AGENTS, 'agents.api_keys': true }, on: api })
  const { body } = await api.call('POST /api/auth/api-keys', { as: ana.token, json: { name: 'k', scope: 'readonly' } })
  const tool = agentTools(open, body.key)
  assert.equal((await tool('list', { table: 'notes' })).isError, false)
  assert.equal((await tool('create', { table: 'notes', body: { id: 1 } })).content.code, 403)
})

test('the only parameter of the address is read_only', async () => {
  for (const query of [
    '?readonly=true',
    '?read_only=1',
    '?read_only=',
    '?read_only=TRUE',
    '?read_only=true&read_only=false',
    '?x=1',
  ]) {
    assert.equal((await post({ as: tokens.access }, query)).status, 400, query)
  }
  for (const query of ['', '?read_only=true', '?read_only=false']) {
    assert.equal((await post({ as: tokens.access }, query)).status, 200, query)
  }
  const tool = agentTools(api, tokens.access, '/api/mcp?read_only=true')
  assert.equal((await tool('create', { table: 'notes', body: { id: 9 } })).content.code, 403)
  const { body } = await rpc(api, tokens.access, 'tools/list', {}, '/api/mcp?read_only=true')
  assert.ok(!body.result.tools.some(({ name }: { name: string }) => ['create', 'call', 'undo'].includes(name)))
})

test('a foreign origin is refused, a listed one and the own are not', async () => {
  const from = (origin: string) => post({ as: tokens.access, headers: { origin } })
  assert.equal((await from('https://evil.test')).status, 403)
  assert.equal((await from('https://app.test')).status, 200)
  assert.equal((await from(new URL(resourceOf(api)).origin)).status, 200)
})

test('messages that are none are refused as such, within the bytes of an answer', async () => {
  const send = (body: string, as: string = tokens.access) =>
    api.call('POST /api/mcp', { as, body, headers: { 'content-type': 'application/json' } })
  const ping = (id: string) => send(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`)
  assert.deepEqual([(await ping('7')).body.id, (await ping('"a"')).body.id], [7, 'a'])
  for (const id of [
    '12345678901234567890',
    '1.5',
    'null',
    '{}',
    '[1]',
    'true',
    `"${'x'.repeat(300)}"`,
    `"${'\\u0001'.repeat(50)}"`,
  ]) {
    const { status, body, text } = await ping(id)
    assert.deepEqual(
      [status, body.id, body.error?.code],
      [400, null, -32600],
      `${id.slice(0, 40)} ${text.slice(0, 200)}`,
    )
  }
  const one = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
  for (const body of [
    `[${one}]`,
    `[[${one},${one}],${one}]`,
    '[]',
    '1',
    'null',
    '"ping"',
    '{"id":1,"method":"ping"}',
  ]) {
    const { status } = await send(body)
    assert.equal(status, 400, body)
  }
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
    const call = (args: string, tool = 'list') =>
      send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${tool}","arguments":${args}}}`)
    assert.equal((await call('{}', name)).body.error.code, -32602, name)
    assert.equal((await call(`{"table":"notes","${name}":{"table":"secrets"}}`)).body.result.isError, true, name)
    assert.equal((await call(`{"table":"${name}"}`)).body.result.structuredContent.code, 404, name)
    assert.equal((await call(`{"function":"${name}"}`, 'call')).body.result.isError, true, name)
    const written = await call(`{"table":"notes","body":{"id":1,"${name}":{"title":"x"}}}`, 'create')
    assert.equal(written.body.result.structuredContent.changes[0].changes.title.new, null, name)
  }
  assert.equal((await api.call('GET /api/mcp', { as: tokens.access })).status, 405)
  assert.equal((await api.call('DELETE /api/mcp', { as: tokens.access })).status, 405)
  // A user's token at the operator's door.
  for (const as of [tokens.access, ana.token]) {
    assert.ok([401, 404].includes((await api.call('POST /api/admin/mcp', { as, json: {} })).status))
  }
})

test('both revisions: what headers and bodies say is the same, and nothing else is answered', async () => {
  const modern = { 'mcp-protocol-version': '2026-07-28' }
  const meta = { _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } }
  const ask = async (method: string, params: object, headers: Record<string, string>, id: number | undefined = 1) => {
    const json = { jsonrpc: '2.0', ...(id !== undefined && { id }), method, params }
    const { status, body } = await api.call('POST /api/mcp', { as: tokens.access, json, headers })
    return [status, body?.error?.code ?? null, body?.result] as const
  }
  const [, , found] = await ask('server/discover', meta, { ...modern, 'mcp-method': 'server/discover' })
  assert.deepEqual([found.supportedVersions, found.resultType], [['2026-07-28'], 'complete'])
  const call = { ...meta, name: 'describe', arguments: {} }
  const named = (name: string) => ({ ...modern, 'mcp-method': 'tools/call', 'mcp-name': name })
  const encoded = `=?base64?${Buffer.from('describe').toString('base64')}?=`
  for (const name of ['describe', encoded]) assert.equal((await ask('tools/call', call, named(name)))[0], 200)
  const other = { _meta: { 'io.modelcontextprotocol/protocolVersion': '2099-01-01' } }
  const refused: [string, object, Record<string, string>, number, number][] = [
    ['tools/call', call, named('list'), 400, -32020],
    ['tools/call', call, { ...modern, 'mcp-method': 'tools/list' }, 400, -32020],
    ['tools/list', meta, { 'mcp-method': 'tools/list' }, 400, -32020],
    ['tools/list', meta, { 'mcp-protocol-version': '2025-11-25', 'mcp-method': 'tools/list' }, 400, -32020],
    ['tools/list', other, { 'mcp-protocol-version': '2099-01-01', 'mcp-method': 'tools/list' }, 400, -32022],
    ['tools/list', {}, { 'mcp-protocol-version': '2099-01-01' }, 400, -32022],
    ['tools/list', {}, modern, 400, -32602],
    ['resources/list', meta, { ...modern, 'mcp-method': 'resources/list' }, 404, -32601],
    ['resources/list', {}, {}, 200, -32601],
    ['server/discover', {}, {}, 200, -32601],
  ]
  for (const [method, params, headers, status, code] of refused) {
    assert.deepEqual(
      (await ask(method, params, headers)).slice(0, 2),
      [status, code],
      `${method} ${JSON.stringify(headers)}`,
    )
  }
  for (const [asked, given] of [
    ['2025-11-25', '2025-11-25'],
    ['2025-06-18', '2025-06-18'],
    ['1999-01-01', '2025-11-25'],
  ]) {
    const [, , hello] = await ask('initialize', { protocolVersion: asked, capabilities: {}, clientInfo: {} }, {})
    assert.equal(hello.protocolVersion, given)
  }
  assert.equal(
    (await post({ as: tokens.access, json: { jsonrpc: '2.0', method: 'notifications/initialized' } })).status,
    202,
  )
})

test('pages of a listed origin can use the protocol', async () => {
  const headers = { origin: 'https://app.test', 'access-control-request-method': 'POST' }
  const preflight = await api.call('OPTIONS /api/mcp', { headers })
  const allowed = preflight.headers.get('access-control-allow-headers') ?? ''
  for (const name of ['Authorization', 'Content-Type', 'MCP-Protocol-Version', 'Mcp-Method', 'Mcp-Name']) {
    assert.ok(allowed.includes(name), name)
  }
  const refused = await post({ headers: { origin: 'https://app.test' } })
  assert.match(refused.headers.get('access-control-expose-headers') ?? '', /WWW-Authenticate/)
})

const verifier = randomBytes(32).toString('base64url')
const asked = (clientId: string, fields: object = {}) => ({
  response_type: 'code',
  client_id: clientId,
  redirect_uri: 'http://127.0.0.1/callback',
  scope: 'readwrite',
  code_challenge: createHash('sha256').update(verifier).digest('base64url'),
  code_challenge_method: 'S256',
  resource: resourceOf(api),
  ...fields,
})
const consent = (json: object) =>
  api.call('POST /api/auth/authorize/consent', {
    as: ana.token,
    json: { decision: 'approve', ...json },
    headers: { accept: 'application/json' },
  })

test('the user alone chooses how an agent writes and until when', async () => {
  const clientId = await registerAgent(api)
  const wrong = [
    { auto: 101 },
    { auto: -1 },
    { auto: 1.5 },
    { auto: '5' },
    { auto: 5, release: true },
    { release: 'yes' },
    { until: 'tomorrow' },
    { until: '2020-01-01T00:00:00Z' },
    { resource: 'https://other.test/api/mcp' },
    { resource: '' },
  ]
  for (const fields of wrong) {
    const { status, body } = await consent(asked(clientId, fields))
    assert.equal(status, 400, JSON.stringify(fields))
    assert.equal(body.error, 'resource' in fields ? 'invalid_target' : 'invalid_request')
  }
  const until = new Date(Date.now() + 60_000).toJSON()
  assert.equal((await consent(asked(clientId, { auto: 3, until }))).status, 200)
  // Remembered, with the terms; a client that asks for others gets the user's.
  const query = new URLSearchParams({ ...asked(clientId), auto: '100', until: '2099-01-01T00:00:00Z' } as never)
  const again = await api.call(`GET /api/auth/authorize?${query}`, {
    as: ana.token,
    headers: { accept: 'application/json' },
  })
  assert.equal(again.body.requires_consent, false)
  const code = new URL(again.body.redirect_to).searchParams.get('code') ?? ''
  const form = {
    grant_type: 'authorization_code',
    code,
    redirect_uri: 'http://127.0.0.1/callback',
    code_verifier: verifier,
    client_id: clientId,
  }
  const foreign = await api.call('POST /api/auth/token', { form: { ...form, resource: 'https://other.test/' } })
  assert.equal(foreign.body.error, 'invalid_target')
  const issued = await api.call('POST /api/auth/token', { form: { ...form, resource: resourceOf(api) } })
  assert.equal(issued.status, 200, issued.text)
  assert.ok(issued.body.expires_in <= 60)
  const [grant] = await api.sql('select auto, release from svc.oauth_grants where auto is not null')
  assert.equal(grant.auto, '3')
  // Another set of tables is another consent.
  const other = new URLSearchParams({ ...asked(clientId), allowed_tables: 'notes' } as never)
  const prompt = await api.call(`GET /api/auth/authorize?${other}`, {
    as: ana.token,
    headers: { accept: 'application/json' },
  })
  assert.equal(prompt.body.requires_consent, true)
})

test('a grant that names tables reaches no other, and no function', async () => {
  const { access } = await agentTokens(api, ana, { tables: ['notes'] })
  const tool = agentTools(api, access)
  assert.equal((await tool('list', { table: 'notes' })).isError, false)
  assert.equal((await tool('list', { table: 'secrets' })).content.code, 403)
  assert.equal((await tool('describe', { table: 'secrets' })).content.code, 403)
  assert.equal((await tool('call', { function: 'f' })).content.code, 403)
  assert.ok(!(await tool('describe')).text.includes('secrets'))
  // And when its time is over it reaches nothing.
  const short = await agentTokens(api, ana, { until: new Date(Date.now() + 1_500).toISOString() })
  await eventually(async () => assert.equal((await post({ as: short.access })).status, 401), { seconds: 20 })
})

test('programs in use: schemes of their own, any port on localhost, no state', async () => {
  const json = {
    redirect_uris: ['cursor://anysphere.cursor-mcp/oauth/callback', 'http://localhost/cb'],
    client_name: 'Cursor',
  }
  const { body } = await api.call('POST /api/auth/clients', { json })
  for (const redirect_uri of ['cursor://anysphere.cursor-mcp/oauth/callback', 'http://localhost:51234/cb']) {
    const { status, body: answer } = await consent(asked(body.client_id, { redirect_uri }))
    assert.equal(status, 200, JSON.stringify(answer))
    assert.equal(new URL(answer.redirect_to).searchParams.has('state'), false)
  }
  for (const uri of [
    'javascript:alert(1)',
    'data:text/html,x',
    'http://evil.test/cb',
    'file:///x',
    'vbscript:x',
    'about:blank',
    'blob:x',
  ]) {
    const refused = await api.call('POST /api/auth/clients', { json: { redirect_uris: [uri] } })
    assert.deepEqual([refused.status, refused.body.error], [400, 'invalid_redirect_uri'], uri)
  }
})

test('the name of a program that registers itself shows what it is', async () => {
  const register = (client_name: string) =>
    api.call('POST /api/auth/clients', { json: { redirect_uris: ['http://localhost/cb'], client_name } })
  for (const name of ['a\u202eb', 'a\ud800', 'a\nb', 'a\u200bb', 'a\u2028b']) {
    const { status, body, text } = await register(name)
    assert.deepEqual(
      [status, body.error, text.includes(name)],
      [400, 'invalid_client_metadata', false],
      JSON.stringify(name),
    )
  }
  assert.deepEqual((await register(' Löwe 🦁 (beta)\n')).body.client_name, 'Löwe 🦁 (beta)')
})

test('switched off, none of it is there', async () => {
  for (const line of [
    'POST /api/mcp',
    'GET /.well-known/oauth-protected-resource',
    'GET /api/auth/agents',
    'POST /api/auth/clients',
  ] as const) {
    const answer = await off.call(line, { as: ana.token, ...(line.startsWith('POST') && { json: {} }) })
    assert.equal(answer.status, 404, line)
  }
  const { body } = await off.call('GET /.well-known/oauth-authorization-server')
  assert.equal(body.client_id_metadata_document_supported, undefined)
  assert.equal(body.registration_endpoint, undefined)
  const on = await api.call('GET /.well-known/oauth-authorization-server')
  assert.equal(on.body.client_id_metadata_document_supported, true)
})

test('addresses of client documents are guarded', async () => {
  const ask = (client_id: string) =>
    api.call(`GET /api/auth/authorize?${new URLSearchParams(asked(client_id) as never)}`, {
      as: ana.token,
      headers: { accept: 'application/json' },
    })
  for (const id of [
    'https://127.0.0.1/client',
    'https://localhost/client',
    'https://[::1]/client',
    'https://10.0.0.1/c',
    'https://169.254.169.254/c',
    'https://example.com:8443/c',
    'https://example.com/',
    'https://a@example.com/c',
    'https://example.com/c#f',
    'https://example.com/a/../c',
  ]) {
    const { status, body } = await ask(id)
    assert.deepEqual([status, body.error], [400, 'invalid_request'], `${id} ${JSON.stringify(body)}`)
  }
  const statuses: number[] = []
  for (let i = 0; i < 25; i++) statuses.push((await ask(`https://127.0.0.1/c${i}`)).status)
  assert.ok(statuses.includes(429))
  assert.equal(
    (await api.call(`GET /api/auth/authorize?${new URLSearchParams(asked('https://127.0.0.1/x') as never)}`)).status,
    401,
  )
})
