import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client, type OAuthClientProvider, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { AGENTS, resourceOf } from '../../../test/kit/agents.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: AGENTS })
const ana = await api.signUp('ana@x.test')
await api.sql(`create table notes (id int primary key, title text, owner uuid default svc.uid());
  alter table notes enable row level security;
  create policy own on notes using (owner = svc.uid());
  grant all on notes to svc_authenticated`)
await eventually(async () =>
  assert.equal((await api.call('GET /api/collections/notes', { as: ana.token })).status, 200),
)

const REDIRECT = 'http://localhost:7777/callback'

/** Keeps what the official clients give it, and agrees as the user's browser would. */
class Provider {
  code = ''
  iss = ''
  asked: URL | undefined
  #kept = new Map<string, unknown>()
  readonly redirectUrl = REDIRECT
  readonly clientMetadata = { client_name: 'Official', redirect_uris: [REDIRECT], token_endpoint_auth_method: 'none' }
  clientInformation = () => this.#kept.get('client') as never
  saveClientInformation = (value: unknown) => void this.#kept.set('client', value)
  tokens = () => this.#kept.get('tokens') as never
  saveTokens = (value: unknown) => void this.#kept.set('tokens', value)
  saveCodeVerifier = (value: string) => void this.#kept.set('verifier', value)
  codeVerifier = () => this.#kept.get('verifier') as string
  async redirectToAuthorization(url: URL): Promise<void> {
    this.asked = url
    const query = Object.fromEntries(url.searchParams)
    const prompt = await api.call(`GET /api/auth/authorize?${url.searchParams}`, {
      as: ana.token,
      headers: { accept: 'application/json' },
    })
    assert.equal(prompt.status, 200, prompt.text)
    assert.equal(prompt.body.client_name, 'Official')
    const { body, status, text } = await api.call('POST /api/auth/authorize/consent', {
      as: ana.token,
      json: { ...query, decision: 'approve' },
      headers: { accept: 'application/json' },
    })
    assert.equal(status, 200, text)
    const target = new URL(body.redirect_to)
    this.code = target.searchParams.get('code') ?? ''
    this.iss = target.searchParams.get('iss') ?? ''
  }
}

type AnyClient = {
  listTools(): Promise<{ tools: { name: string }[] }>
  callTool(call: { name: string; arguments: Record<string, unknown> }): Promise<unknown>
  close(): Promise<void>
}

async function works(client: AnyClient, provider: Provider): Promise<void> {
  assert.equal(provider.asked?.searchParams.get('scope'), 'readwrite')
  assert.equal(provider.asked.searchParams.get('resource'), resourceOf(api))
  const { tools } = await client.listTools()
  assert.ok(tools.some(({ name }) => name === 'describe'))
  const id = Math.floor(Math.random() * 1e9)
  const body = { id, title: 'hello' }
  const call = async (name: string, args: Record<string, unknown>) =>
    (await client.callTool({ name, arguments: args })) as {
      structuredContent: Record<string, unknown>
      isError?: boolean
    }
  const tried = await call('create', { table: 'notes', body })
  const done = await call('create', { table: 'notes', body, confirm: tried.structuredContent['confirm'] })
  assert.equal(done.isError, undefined, JSON.stringify(done))
  assert.equal((await call('get', { table: 'notes', id: String(id) })).structuredContent['title'], 'hello')
  await client.close()
}

for (const pin of ['2026-07-28', undefined]) {
  test(`the official client, ${pin ?? '2025-11-25'}, from 401 to a write`, async () => {
    const provider = new Provider()
    const options = { authProvider: provider as unknown as OAuthClientProvider }
    const address = new URL(resourceOf(api))
    const negotiation = pin === undefined ? {} : { versionNegotiation: { mode: { pin } } }
    const newClient = () => new Client({ name: 'official', version: '1' }, negotiation as never)
    const transport = new StreamableHTTPClientTransport(address, options)
    await assert.rejects(newClient().connect(transport), { name: /Unauthorized/ })
    await transport.finishAuth(provider.code, provider.iss)
    const client = newClient()
    await client.connect(new StreamableHTTPClientTransport(address, options))
    await works(client as unknown as AnyClient, provider)
  })
}

test('the official client of last year, from 401 to a write', async () => {
  const provider = new Provider()
  const address = new URL(resourceOf(api))
  const options = { authProvider: provider as never }
  const transport = new LegacyTransport(address, options)
  await assert.rejects(new LegacyClient({ name: 'legacy', version: '1' }).connect(transport as never))
  await transport.finishAuth(provider.code)
  const client = new LegacyClient({ name: 'legacy', version: '1' })
  await client.connect(new LegacyTransport(address, options) as never)
  await works(client as unknown as AnyClient, provider)
})
