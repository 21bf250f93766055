import { notFound, unauthorized } from '../../core/errors.ts'
import { type Identity, ON_BEHALF, type UserIdentity } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Db } from '../../db/db.ts'
import { findOrRefresh, findTable, isVisible } from '../../db/schema/lookup.ts'
import type { Schema, SchemaCache } from '../../db/schema/snapshot.ts'
import type { Feature } from '../../http/feature.ts'
import {
  type Call,
  json,
  jsonText,
  noContentAfter,
  type Reply,
  type Route,
  requireEnabled,
  route,
} from '../../http/route.ts'
import { clientRoutes } from './admin-routes.ts'
import { checkResource, termsOfBody } from './agent-terms.ts'
import { type AuthorizationRequest, type FormFields, requestOfBody, requestOfQuery } from './authorization-request.ts'
import { runChecks } from './authorize-checks.ts'
import { authenticate, clientCredentials } from './client-auth.ts'
import { type ClientDocuments, isDocumentUrl } from './client-documents.ts'
import { Clients } from './clients.ts'
import { consentPage } from './consent-page.ts'
import { errorBody, refuse, tokenErrorBody, unknownClient } from './errors.ts'
import { type Grants, required } from './grants.ts'
import { metadataOf } from './metadata.ts'
import { type RegistrationDeps, registrationRoute } from './registration.ts'
import { type Client, clientNamed } from './sql.ts'

export type OAuthServerDeps = {
  db: Db
  schema: SchemaCache
  grants: Grants
  /** auth.oauth_provider.enabled */
  enabled: boolean
  appName: string
  publicBaseUrl: () => string
  /** Drops what has ended from this process's caches. */
  dropEnded: () => Promise<void>
  /** Whether users may sign in with a passkey. */
  hasPasskeys: () => boolean
  /** auth.oauth_provider.registration */
  hasRegistration: boolean
  /** What agents are at; undefined while agents.enabled is false. */
  agents: { resource: () => string; documents: ClientDocuments } | undefined
} & Pick<RegistrationDeps, 'countRegistration'>

const tokens = t.object({
  access_token: t.string(),
  token_type: t.oneOf(['Bearer']),
  expires_in: t.integer(),
  refresh_token: t.optional(t.string()),
  scope: t.string(),
})
const redirected = t.object({ requires_consent: t.boolean(), redirect_to: t.string() })
const prompt = t.object({
  requires_consent: t.boolean(),
  client_id: t.string(),
  client_name: t.string(),
  redirect_uri: t.string(),
  scope: t.string(),
  state: t.string(),
  code_challenge: t.string(),
  code_challenge_method: t.string(),
  allowed_tables: t.optional(t.array(t.string())),
  resource: t.optional(t.string()),
  client_host: t.optional(t.string({ description: 'where the document of the client is' })),
})
const parameters = {
  response_type: t.string({ description: '`code`' }),
  client_id: t.string(),
  redirect_uri: t.string(),
  scope: t.string({ description: 'readonly, readwrite or *, and besides it storage:read, storage:write' }),
  state: t.string(),
  code_challenge: t.string(),
  code_challenge_method: t.string({ description: '`S256`' }),
  resource: t.optional(t.string({ description: 'what the tokens are for (RFC 8707); left out: the API' })),
}
const grant = t.object({
  id: t.uuid(),
  client_id: t.string(),
  client_name: t.string(),
  scope: t.string(),
  allowed_tables: t.array(t.string(), { description: 'empty = all' }),
  created_at: t.time(),
})
const credentials = { client_id: t.optional(t.string()), client_secret: t.optional(t.string()) }
const NO_STORE = { 'Cache-Control': 'no-store', Pragma: 'no-cache' }

export function createOAuthServer(deps: OAuthServerDeps): Feature {
  const { db, grants } = deps
  const clients = new Clients(db, deps.dropEnded)
  const requires = requireEnabled(deps.enabled, () =>
    notFound('OAuth provider mode is not enabled', 'feature_disabled'),
  )
  const requiresRegistration = (): void => {
    requires()
    if (!deps.hasRegistration) throw notFound('registration of applications is not enabled', 'feature_disabled')
  }
  /** Clients send forms, with credentials in them or in the header. */
  const clientForm = {
    auth: 'none',
    bodyKind: 'form',
    anyOrigin: true,
    requires,
    errorBody: tokenErrorBody,
    wrongType: () => refuse('invalid_request', 'the body must be application/x-www-form-urlencoded'),
  } as const

  async function clientOf(clientId: string | undefined, ip: string): Promise<Client> {
    if (clientId !== undefined && isDocumentUrl(clientId)) {
      if (!deps.agents) throw unknownClient()
      return deps.agents.documents.clientAt(clientId, ip)
    }
    const [client] = clientId ? await db.rows<Client>(ON_BEHALF, clientNamed(clientId)) : []
    if (!client || client.revokedAt) throw unknownClient()
    return client
  }

  /** Runs for the prompt and for the consent, so that only what was prompted can be approved. */
  async function checked(fields: FormFields, request: AuthorizationRequest, ip: string): Promise<Client> {
    const client = await clientOf(fields['client_id'], ip)
    runChecks(request, client)
    checkResource(request, client, deps.agents?.resource())
    await requireTables(deps.schema, request.tables)
    return client
  }

  /** RFC 6749, section 4.1.2, with the issuer of RFC 9207. */
  function redirectBack(call: Call, request: AuthorizationRequest, answer: Readonly<Record<string, string>>): Reply {
    const target = new URL(request.redirectUri)
    for (const [name, value] of Object.entries({ ...answer, state: request.state, iss: deps.publicBaseUrl() })) {
      if (name !== 'state' || value !== '') target.searchParams.set(name, value)
    }
    const headers = { ...NO_STORE, 'Referrer-Policy': 'no-referrer' }
    if (wantsJson(call)) return { ...json(200, { requires_consent: false, redirect_to: target.href }), headers }
    return { status: 302, headers: { ...headers, Location: target.href } }
  }

  const routes: Route[] = [
    route('GET /api/auth/authorize', {
      summary: 'Ask a user for consent, or send the code if it was given before',
      auth: 'user',
      requires,
      query: { ...parameters, allowed_tables: t.string({ description: 'comma list; absent = all' }) },
      errorBody,
      answers: { 200: t.union(prompt, redirected), 302: null },
      handle: async (call) => {
        const user = personOf(call.who)
        refuseRepeated(call)
        const request = requestOfQuery(call.query)
        const client = await checked(call.query, request, call.ip)
        const code = await grants.codeOfConsent(user, client, request)
        if (code !== undefined) return redirectBack(call, request, { code })
        return { ...json(200, promptOf(client, request)), headers: NO_STORE }
      },
    }),

    route('POST /api/auth/authorize/consent', {
      summary: "Record the user's decision",
      auth: 'user',
      requires,
      accepts: t.object({
        decision: t.oneOf(['approve', 'deny']),
        ...parameters,
        allowed_tables: t.optional(t.array(t.string())),
        auto: t.optional(t.integer({ minimum: 0, maximum: 100, description: 'rows an hour that need no second step' })),
        release: t.optional(t.boolean({ description: 'every write waits for the user' })),
        until: t.optional(t.time({ description: 'when the access ends' })),
      }),
      errorBody,
      answers: { 200: redirected, 302: null },
      handle: async (call) => {
        const user = personOf(call.who)
        const { fields, request } = requestOfBody(call.body)
        const client = await checked(fields, request, call.ip)
        const terms = termsOfBody(call.body, request)
        switch (fields['decision']) {
          case 'approve':
            return redirectBack(call, request, { code: await grants.consent(user, client, request, terms) })
          case 'deny':
            return redirectBack(call, request, {
              error: 'access_denied',
              error_description: 'the user denied the request',
            })
          default:
            throw refuse('invalid_request', 'decision must be approve or deny')
        }
      },
    }),

    route('GET /api/auth/grants', {
      summary: 'What the user granted to OAuth clients, newest first',
      auth: 'user',
      requires,
      answers: { 200: t.array(grant) },
      handle: async ({ who }) => jsonText(200, await grants.list(personOf(who).id)),
    }),
    route('DELETE /api/auth/grants/{id}', {
      summary: 'End a grant; the client has to ask for consent again',
      auth: 'user',
      requires,
      params: { id: t.id('grant') },
      answers: { 204: null },
      handle: ({ who, params }) => noContentAfter(grants.withdraw(personOf(who), params.id)),
    }),

    route('POST /api/auth/token', {
      summary: 'Exchange a code, client credentials or a refresh token for tokens',
      ...clientForm,
      accepts: t.object({
        grant_type: t.oneOf(['authorization_code', 'client_credentials', 'refresh_token']),
        code: t.optional(t.string()),
        redirect_uri: t.optional(t.string()),
        code_verifier: t.optional(t.string()),
        refresh_token: t.optional(t.string()),
        scope: t.optional(t.string()),
        allowed_tables: t.optional(t.string()),
        resource: t.optional(t.string()),
        ...credentials,
      }),
      answers: { 200: tokens },
      handle: async (call) => {
        refuseRepeated(call)
        const form = call.body as FormFields
        const grantType = required(form, 'grant_type')
        const client = await authenticate(db, clientCredentials(call.headers['authorization'], form))
        return { ...json(200, await exchange(grants, grantType, client, form)), headers: NO_STORE }
      },
    }),

    route('POST /api/auth/revoke', {
      summary: 'End a token, or with a refresh token its whole grant',
      ...clientForm,
      accepts: t.object({ token: t.string(), token_type_hint: t.optional(t.string()), ...credentials }),
      answers: { 200: null },
      handle: async (call) => {
        refuseRepeated(call)
        const form = call.body as FormFields
        const token = required(form, 'token')
        const credentials = clientCredentials(call.headers['authorization'], form)
        await grants.revoke(token, credentials ? await authenticate(db, credentials) : null)
        return { status: 200, headers: NO_STORE }
      },
    }),

    route('GET /.well-known/oauth-authorization-server', {
      summary: 'Metadata of the authorization server (RFC 8414)',
      auth: 'none',
      anyOrigin: true,
      requires,
      answers: { 200: t.record(t.any()) },
      handle: () =>
        json(
          200,
          metadataOf(deps.publicBaseUrl(), {
            hasDocuments: deps.agents !== undefined,
            hasRegistration: deps.hasRegistration,
          }),
        ),
    }),

    registrationRoute({ db, requires: requiresRegistration, countRegistration: deps.countRegistration }),
    consentPage({ appName: deps.appName, hasPasskeys: deps.hasPasskeys, requires }),
    ...clientRoutes(clients, requires),
  ]

  return { routes }
}

function exchange(grants: Grants, grantType: string, client: Client, form: FormFields) {
  switch (grantType) {
    case 'authorization_code':
      return grants.redeemCode(client, form)
    case 'client_credentials':
      return grants.forClient(client, form)
    case 'refresh_token':
      return grants.refresh(client, form)
    default:
      throw refuse('unsupported_grant_type', 'grant_type is not one of this server')
  }
}

/** Users see what they approve: names that mean no table now could mean another one later. */
async function requireTables(cache: SchemaCache, names: readonly string[]): Promise<void> {
  const isKnown = (schema: Schema) => (name: string) => {
    const table = findTable(schema, name)
    return table !== undefined && isVisible(table, 'svc_authenticated')
  }
  const areKnown = await findOrRefresh(cache, (schema) => names.every(isKnown(schema)) || undefined)
  if (!areKnown) throw refuse('invalid_request', 'allowed_tables names a table that does not exist')
}

/** Only users with an account of their own can consent, not anonymous ones or keys. */
function personOf(who: Identity): UserIdentity {
  if (who.kind !== 'user' || who.isAnonymous) throw unauthorized('not authenticated')
  return who
}

/** RFC 6749, section 3.1: parameters must not be repeated. */
function refuseRepeated({ repeated }: Call): void {
  const [name] = repeated
  if (name !== undefined) throw refuse('invalid_request', `${name} is given more than once`)
}

const wantsJson = ({ headers }: Call): boolean => (headers['accept'] ?? '').includes('application/json')

const promptOf = (client: Client, request: AuthorizationRequest) => ({
  requires_consent: true,
  client_id: client.clientId,
  client_name: client.name,
  redirect_uri: request.redirectUri,
  scope: request.scope,
  state: request.state,
  code_challenge: request.challenge,
  code_challenge_method: request.challengeMethod,
  ...(request.tables.length > 0 && { allowed_tables: request.tables }),
  ...(request.resource !== '' && { resource: request.resource }),
  ...(client.origin === 'document' && { client_host: new URL(client.clientId).host }),
})
