import * as t from '../../core/json-type.ts'
import { pageQuery, parsePage } from '../../core/page.ts'
import { json, jsonText, noContentAfter, type Route, route } from '../../http/route.ts'
import type { ClientInput, Clients } from './clients.ts'

const client = t.object({
  id: t.uuid(),
  appId: t.nullable(t.uuid()),
  clientId: t.string({ description: '`svc_cid_…`, the one of the paths' }),
  name: t.string(),
  redirectUris: t.array(t.string()),
  scopes: t.array(t.string()),
  clientType: t.oneOf(['confidential', 'public']),
  postLogoutRedirectUris: t.array(t.string()),
  backchannelLogoutUri: t.nullable(t.string()),
  createdAt: t.time(),
  updatedAt: t.time(),
  revokedAt: t.nullable(t.time()),
  activeAccessTokenCount: t.integer(),
  activeRefreshTokenCount: t.integer(),
  totalGrants: t.integer({ description: 'code grants ever made' }),
  lastTokenIssuedAt: t.nullable(t.time()),
})

const change = {
  redirectUris: t.optional(t.array(t.string())),
  scopes: t.optional(
    t.array(
      t.string({
        description: 'readonly, readwrite, *, storage:read, storage:write, openid, profile, email or offline_access',
      }),
    ),
  ),
  postLogoutRedirectUris: t.optional(t.array(t.string({ description: 'where a browser may go after a logout' }))),
  backchannelLogoutUri: t.optional(
    t.nullable(t.string({ description: 'https address that hears of the end of sessions; never a private network' })),
  ),
}
type Change = t.TypeOf<typeof changed>
const changed = t.object({ name: t.string(), ...change })

/** Left out means none. */
const settingsOf = (given: Change): ClientInput => ({
  name: given.name,
  redirectUris: given.redirectUris ?? [],
  scopes: given.scopes ?? [],
  postLogoutRedirectUris: given.postLogoutRedirectUris ?? [],
  backchannelLogoutUri: given.backchannelLogoutUri ?? null,
})
const newClient = t.object({
  name: t.string(),
  appId: t.uuid({ refusal: 'invalid appId format' }),
  clientType: t.optional(t.string({ description: 'confidential (default) or public' })),
  ...change,
})

export function clientRoutes(clients: Clients, requires: () => void): Route[] {
  const admin = { auth: 'admin', requires } as const
  const one = { ...admin, params: { clientId: t.string({ description: '`svc_cid_…`' }) } }
  return [
    route('GET /api/admin/oauth/clients', {
      summary: 'OAuth clients, newest first',
      leastRole: 'viewer',
      ...admin,
      query: pageQuery,
      answers: { 200: t.pageOf(client) },
      handle: async ({ query }) => jsonText(200, await clients.page(parsePage(query))),
    }),
    route('POST /api/admin/oauth/clients', {
      summary: 'Register an OAuth client; its secret is shown once',
      leastRole: 'operator',
      ...admin,
      audit: 'oauth_client.create',
      body: newClient,
      answers: { 201: t.object({ clientSecret: t.optional(t.string()), client }) },
      handle: async (call) => {
        const { appId, clientType = 'confidential' } = call.body
        return json(201, await clients.create(appId, clientType, settingsOf(call.body), call))
      },
    }),
    route('GET /api/admin/oauth/clients/{clientId}', {
      summary: 'An OAuth client',
      leastRole: 'viewer',
      ...one,
      answers: { 200: client },
      handle: async ({ params }) => jsonText(200, await clients.one(params.clientId)),
    }),
    route('PUT /api/admin/oauth/clients/{clientId}', {
      summary: 'Change name, redirect URIs, scopes and addresses for logouts',
      leastRole: 'operator',
      ...one,
      audit: 'oauth_client.update',
      body: changed,
      answers: { 200: client },
      handle: async (call) => jsonText(200, await clients.update(call.params.clientId, settingsOf(call.body), call)),
    }),
    route('DELETE /api/admin/oauth/clients/{clientId}', {
      summary: 'Revoke a client; its tokens end everywhere',
      leastRole: 'operator',
      ...one,
      audit: 'oauth_client.revoke',
      answers: { 204: null },
      handle: (call) => noContentAfter(clients.revoke(call.params.clientId, call)),
    }),
    route('POST /api/admin/oauth/clients/{clientId}/rotate-secret', {
      summary: 'Replace the secret; the old one is refused at once',
      freshFactor: true,
      ...one,
      audit: 'oauth_client.rotate_secret',
      bodyKind: 'none',
      answers: { 200: t.object({ clientSecret: t.string() }) },
      handle: async (call) => json(200, { clientSecret: await clients.rotateSecret(call.params.clientId, call) }),
    }),
  ]
}
