import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { AGENTS, agentTools } from '../../../../test/kit/agents.ts'
import { spawnServer, startServer, type TestServer } from '../../../../test/kit/kit.ts'

// Documents of clients are read on port 443 alone, so this test needs to listen there.

const dir = mkdtempSync(join(tmpdir(), 'svc-documents-'))
const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')]
const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']
execFileSync(
  'openssl',
  [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-days',
    '2',
    '-keyout',
    key,
    '-out',
    cert,
    ...subject,
  ],
  { stdio: 'ignore' },
)

let asked: string[] = []
const document = (path: string, fields: object = {}) => ({
  client_id: `https://localhost${path}`,
  client_name: 'Documented',
  redirect_uris: ['http://127.0.0.1/callback'],
  ...fields,
})
const answers: Record<string, [number, string, Record<string, string>?]> = {
  '/good.json': [200, JSON.stringify(document('/good.json'))],
  '/other.json': [200, JSON.stringify(document('/good.json'))],
  '/secret.json': [200, JSON.stringify(document('/secret.json', { token_endpoint_auth_method: 'client_secret_post' }))],
  '/uris.json': [200, JSON.stringify(document('/uris.json', { redirect_uris: ['javascript:alert(1)'] }))],
  '/moved.json': [302, '', { location: 'https://localhost/good.json' }],
  '/large.json': [200, JSON.stringify(document('/large.json', { padding: 'x'.repeat(10_000) }))],
  '/text.json': [200, 'hello'],
}
const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => {
  asked.push(request.url ?? '')
  // This one never ends.
  if (request.url === '/slow.json') return void response.writeHead(200).write('{')
  const [status, body, headers] = answers[request.url ?? ''] ?? [404, '']
  response.writeHead(status, headers).end(body)
})
await new Promise<void>((resolve) => server.listen(443, '127.0.0.1', resolve))
after(() => {
  server.closeAllConnections()
  server.close()
})

process.env['NODE_EXTRA_CA_CERTS'] = cert
const api = await spawnServer({ config: { ...AGENTS, 'agents.allow_private_clients': true } })
const ana = await api.signUp('ana@x.test')
await api.sql('create table notes (id int primary key, owner uuid default svc.uid())')
const base = `http://localhost:${new URL(api.url).port}`
const verifier = randomBytes(32).toString('base64url')
const fields = (path: string) => ({
  response_type: 'code',
  client_id: `https://localhost${path}`,
  redirect_uri: 'http://127.0.0.1:5555/callback',
  scope: 'readwrite',
  code_challenge: createHash('sha256').update(verifier).digest('base64url'),
  code_challenge_method: 'S256',
  resource: `${base}/api/mcp`,
})
const accept = { accept: 'application/json' }
const authorize = (path: string, at: TestServer = api, as: string | undefined = ana.token) =>
  at.call(`GET /api/auth/authorize?${new URLSearchParams(fields(path))}`, { ...(as && { as }), headers: accept })

test('a client is what its document says, and its host is shown', async () => {
  const prompt = await authorize('/good.json')
  assert.equal(prompt.status, 200, prompt.text)
  assert.deepEqual([prompt.body.client_name, prompt.body.client_host], ['Documented', 'localhost'])
  const consent = await api.call('POST /api/auth/authorize/consent', {
    as: ana.token,
    json: { ...fields('/good.json'), decision: 'approve' },
    headers: accept,
  })
  assert.equal(consent.status, 200, consent.text)
  const code = new URL(consent.body.redirect_to).searchParams.get('code') ?? ''
  const { redirect_uri, client_id } = fields('/good.json')
  const form = { grant_type: 'authorization_code', code, redirect_uri, client_id, code_verifier: verifier }
  const { status, body, text } = await api.call('POST /api/auth/token', { form })
  assert.equal(status, 200, text)
  assert.equal((await agentTools(api, body.access_token)('list', { table: 'notes' })).isError, false)
  // Read once for all of it.
  assert.deepEqual(asked, ['/good.json'])
})

test('nothing is fetched for a visitor, and nothing else is a client', async () => {
  asked = []
  assert.equal((await authorize('/text.json', api, '')).status, 401)
  assert.deepEqual(asked, [])
  for (const path of [
    '/other.json',
    '/secret.json',
    '/uris.json',
    '/moved.json',
    '/large.json',
    '/text.json',
    '/missing.json',
    '/slow.json',
  ]) {
    const { status, text } = await authorize(path)
    assert.equal(status, 400, `${path} ${text}`)
  }
  assert.ok(!(asked as string[]).includes('/good.json'), 'a redirect was followed')
})

test('without the setting for tests, this machine is not reached', async () => {
  asked = []
  const guarded = await startServer({
    config: { ...AGENTS, 'server.public_base_url': base, 'webhooks.allow_private_networks': true },
    on: api,
  })
  assert.equal((await authorize('/text.json', guarded)).status, 400)
  assert.deepEqual(asked, [])
})
