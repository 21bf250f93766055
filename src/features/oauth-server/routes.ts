import { hasStatus, notFound } from '../../core/errors.ts'
import * as t from '../../core/json-type.ts'
import type { Observe } from '../../core/observe.ts'
import type { Queue } from '../../db/queue/queue.ts'
import type { Feature } from '../../http/feature.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { json, jsonText, noContentAfter, type Route, requireEnabled, route } from '../../http/route.ts'
import type { ClientTokens } from '../../identity/client-tokens.ts'
import type { AccessTokens } from './access-tokens.ts'
import { clientRoutes } from './admin-routes.ts'
import { Authorize, type AuthorizeDeps } from './authorize.ts'
import { startBackchannel } from './backchannel.ts'
import { BrowserSessions } from './browser-sessions.ts'
import { Clients } from './clients.ts'
import { consentPage, type PageDeps } from './consent-page.ts'
import { consentRoutes, requirePerson } from './consent-routes.ts'
import { DeviceGrant } from './device-grant.ts'
import { type DeviceRouteDeps, deviceGrantRoutes } from './device-grant-routes.ts'
import type { Grants } from './grants.ts'
import { type LogoutDeps, logoutRoutes } from './logout-routes.ts'
import { metadataOf } from './metadata.ts'
import { Prompts } from './prompts.ts'
import { PushedRequests } from './pushed-requests.ts'
import { type RegistrationDeps, registrationRoute } from './registration.ts'
import { type TokenRouteDeps, tokenRoutes } from './token-routes.ts'
import { userInfoRoutes } from './userinfo.ts'

export type OAuthServerDeps = Pick<AuthorizeDeps, 'db' | 'schema' | 'grants' | 'agents'> &
  Pick<RegistrationDeps, 'countRegistration'> &
  Pick<TokenRouteDeps, 'countPushed'> &
  Pick<DeviceRouteDeps, 'countDevice'> &
  Pick<LogoutDeps, 'endSession'> &
  Omit<PageDeps, 'requires'> & {
    accessTokens: AccessTokens
    /** auth.oauth_provider.enabled */
    enabled: boolean
    /** Of the cookie of the pages. */
    cookieKey: Buffer
    tokens: ClientTokens
    /** Of the codes that people type. */
    userCodeKey: Buffer
    /** To addresses of clients. Never reaches private networks, unless `allowsPrivateClients`. */
    outgoing: Outgoing
    /** agents.allow_private_clients, for tests. */
    allowsPrivateClients: boolean
    queue: Queue
    observe: Observe
    /** Drops what has ended from this process's caches. */
    dropEnded: () => Promise<void>
    /** auth.oauth_provider.registration */
    hasRegistration: boolean
  }

export function createOAuthServer(deps: OAuthServerDeps): Feature {
  const { db, grants, tokens } = deps
  const clients = new Clients({ ...deps, isLogoutUri })
  function isLogoutUri(uri: string): boolean {
    if (!(uri.startsWith('https://') || deps.allowsPrivateClients) || uri.includes('#')) return false
    try {
      deps.outgoing.assertAllowedUrl(uri)
      return true
    } catch (error) {
      if (hasStatus(error, 400)) return false
      throw error
    }
  }
  const requires = requireEnabled(deps.enabled, () =>
    notFound('OAuth provider mode is not enabled', 'feature_disabled'),
  )
  const requiresRegistration = (): void => {
    requires()
    if (!deps.hasRegistration) throw notFound('registration of applications is not enabled', 'feature_disabled')
  }
  const [pushed, prompts] = [new PushedRequests(db), new Prompts(db)]
  const browsers = new BrowserSessions({ db, key: deps.cookieKey })
  const authorize = new Authorize({ ...deps, pushed, browsers })
  const devices = new DeviceGrant({ db, userCodeKey: deps.userCodeKey })
  const parts = { ...deps, devices, pushed, prompts, browsers, authorize, requires }
  const metadata = () =>
    metadataOf(deps.publicBaseUrl(), {
      hasDocuments: deps.agents !== undefined,
      hasRegistration: deps.hasRegistration,
      algorithms: tokens.algorithms(),
    })

  return {
    routes: [
      ...consentRoutes(parts),
      ...grantRoutes(grants, requires),
      ...tokenRoutes(parts),
      ...userInfoRoutes(parts),
      ...deviceGrantRoutes(parts),
      ...discoveryRoutes(metadata, requires, () => {
        requires()
        if (tokens.algorithms().length > 0) return
        throw notFound('OpenID Connect needs another auth.signing_algorithm than HS256', 'feature_disabled')
      }),
      registrationRoute({ db, requires: requiresRegistration, countRegistration: deps.countRegistration }),
      consentPage(parts),
      ...logoutRoutes(parts),
      ...clientRoutes(clients, requires),
    ],
    start: () => {
      if (deps.enabled) startBackchannel(deps)
    },
  }
}

function discoveryRoutes(metadata: () => object, requires: () => void, requiresOpenid: () => void): Route[] {
  const document = {
    auth: 'none',
    anyOrigin: true,
    answers: { 200: t.record(t.any()) },
    handle: () => json(200, metadata()),
  } as const
  return [
    route('GET /.well-known/oauth-authorization-server', {
      summary: 'Metadata of the authorization server (RFC 8414)',
      requires,
      ...document,
    }),
    route('GET /.well-known/openid-configuration', {
      summary: 'Metadata of the OpenID provider (OpenID Connect Discovery)',
      requires: requiresOpenid,
      ...document,
    }),
  ]
}

const grant = t.object({
  id: t.uuid(),
  client_id: t.string(),
  client_name: t.string(),
  scope: t.string(),
  allowed_tables: t.array(t.string(), { description: 'empty = all' }),
  created_at: t.time(),
})

const grantRoutes = (grants: Grants, requires: () => void): Route[] => [
  route('GET /api/auth/grants', {
    summary: 'What the user granted to OAuth clients, newest first',
    auth: 'user',
    requires,
    answers: { 200: t.array(grant) },
    handle: async ({ who }) => jsonText(200, await grants.list(requirePerson(who).id)),
  }),
  route('DELETE /api/auth/grants/{id}', {
    summary: 'End a grant; the client has to ask for consent again',
    auth: 'user',
    requires,
    params: { id: t.id('grant') },
    answers: { 204: null },
    handle: ({ who, params }) => noContentAfter(grants.withdraw(requirePerson(who), params.id)),
  }),
]
