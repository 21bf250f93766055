import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import type { TestServer } from './kit.ts'

/** Settings of a server whose agents work. */
export const AGENTS = {
  'auth.oauth_provider.enabled': true,
  'auth.oauth_provider.registration': true,
  'agents.enabled': true,
  'rate_limit.agents': 'off',
}

const REDIRECT = 'http://127.0.0.1/callback'
const base = (api: TestServer): string => `http://localhost:${new URL(api.url).port}`
export const resourceOf = (api: TestServer): string => `${base(api)}/api/mcp`

/** An application that registered itself. */
export async function registerAgent(api: TestServer, name = 'Agent'): Promise<string> {
  const json = { client_name: name, redirect_uris: [REDIRECT] }
  const { status, body } = await api.call('POST /api/auth/clients', { json })
  assert.equal(status, 201, JSON.stringify(body))
  return body.client_id
}

/** One for all users of a server, where a test does not need another. */
const shared = new Map<string, Promise<string>>()
function agentOfAll(api: TestServer): Promise<string> {
  const known = shared.get(api.databaseUrl) ?? registerAgent(api)
  shared.set(api.databaseUrl, known)
  return known
}

type Terms = { scope?: string; tables?: string[]; auto?: number; release?: boolean; until?: string; clientId?: string }

/** What a user's browser and an agent do from consent to tokens. */
export async function agentTokens(
  api: TestServer,
  user: { token: string },
  { scope = 'readwrite', tables, clientId, ...terms }: Terms = {},
): Promise<{ access: string; refresh: string; clientId: string }> {
  const client = clientId ?? (await agentOfAll(api))
  const verifier = randomBytes(32).toString('base64url')
  const asked = {
    response_type: 'code',
    client_id: client,
    redirect_uri: REDIRECT,
    scope,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    resource: resourceOf(api),
    ...(tables && { allowed_tables: tables }),
  }
  const consent = await api.call('POST /api/auth/authorize/consent', {
    as: user.token,
    json: { decision: 'approve', ...asked, ...terms },
    headers: { accept: 'application/json' },
  })
  assert.equal(consent.status, 200, consent.text)
  const code = new URL(consent.body.redirect_to).searchParams.get('code') ?? ''
  const form = {
    grant_type: 'authorization_code',
    code,
    redirect_uri: REDIRECT,
    code_verifier: verifier,
    client_id: client,
  }
  const { status, body, text } = await api.call('POST /api/auth/token', { form })
  assert.equal(status, 200, text)
  return { access: body.access_token, refresh: body.refresh_token, clientId: client }
}

export type ToolAnswer = {
  isError: boolean
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers freely
  content: any
  text: string
  bytes: number
}

/** Tools by name, as a plain client of the stateless revision calls them. */
export function agentTools(api: TestServer, token: string, address = '/api/mcp') {
  return async (name: string, args: object = {}): Promise<ToolAnswer> => {
    const answer = await rpc(api, token, 'tools/call', { name, arguments: args }, address)
    assert.equal(answer.status, 200, answer.text)
    const { result, error } = answer.body
    assert.ok(result, JSON.stringify(error))
    return {
      isError: result.isError === true,
      content: result.structuredContent,
      text: result.content[0].text,
      bytes: Buffer.byteLength(answer.text),
    }
  }
}

let lastId = 0

/** One message of revision 2026-07-28. */
export function rpc(
  api: TestServer,
  token: string | undefined,
  method: string,
  params: object = {},
  address = '/api/mcp',
) {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const name = (params as { name?: string }).name
  return api.call(`POST ${address as '/api/mcp'}`, {
    ...(token !== undefined && { as: token }),
    json: { jsonrpc: '2.0', id: ++lastId, method, params: { ...params, _meta: meta } },
    headers: {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(method === 'tools/call' && name !== undefined && { 'mcp-name': name }),
    },
  })
}
