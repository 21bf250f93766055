import * as t from '../../core/json-type.ts'
import type { Db } from '../../db/db.ts'
import { type Call, json, type Route, route } from '../../http/route.ts'
import type { AccessTokens } from './access-tokens.ts'
import { type FormFields, requestOfQuery } from './authorization-request.ts'
import type { Authorize } from './authorize.ts'
import { authenticate, clientCredentials } from './client-auth.ts'
import type { Client } from './client-sql.ts'
import { NO_STORE, refuseRepeated } from './consent-routes.ts'
import { invalidClient, refuse, tokenErrorBody } from './errors.ts'
import { type Grants, required } from './grants.ts'
import { DEVICE_GRANT } from './metadata.ts'
import { PUSHED_SECONDS, type PushedRequests } from './pushed-requests.ts'

export type TokenRouteDeps = {
  db: Db
  grants: Grants
  accessTokens: AccessTokens
  authorize: Authorize
  pushed: PushedRequests
  /** Counts a pushed request for the address of a caller; throws 429. */
  countPushed: (ip: string) => Promise<void>
  requires: () => void
}

const tokens = t.object({
  access_token: t.string(),
  token_type: t.oneOf(['Bearer']),
  expires_in: t.integer(),
  refresh_token: t.optional(t.string()),
  id_token: t.optional(t.string({ description: 'with the scope openid' })),
  scope: t.string(),
})
const introspection = t.object({
  active: t.boolean(),
  scope: t.optional(t.string()),
  client_id: t.optional(t.string()),
  sub: t.optional(t.uuid()),
  username: t.optional(t.string()),
  token_type: t.optional(t.oneOf(['Bearer'])),
  exp: t.optional(t.integer()),
  iat: t.optional(t.integer()),
  iss: t.optional(t.string()),
  aud: t.optional(t.string()),
})
const credentials = { client_id: t.optional(t.string()), client_secret: t.optional(t.string()) }

/** Clients send forms, with credentials in them or in the header. */
export const clientForm = {
  auth: 'none',
  bodyKind: 'form',
  anyOrigin: true,
  errorBody: tokenErrorBody,
  wrongType: () => refuse('invalid_request', 'the body must be application/x-www-form-urlencoded'),
} as const

/** The form of a client that authenticates itself. */
export async function clientAndForm(db: Db, call: Call): Promise<{ client: Client; form: FormFields }> {
  refuseRepeated(call)
  const form = call.body as FormFields
  return { client: await authenticate(db, clientCredentials(call.headers['authorization'], form)), form }
}

export function tokenRoutes(deps: TokenRouteDeps): Route[] {
  const { db, grants, requires } = deps
  return [
    route('POST /api/auth/token', {
      summary: 'Exchange a code, client credentials, a refresh token or a device code for tokens',
      ...clientForm,
      requires,
      accepts: t.object({
        grant_type: t.oneOf(['authorization_code', 'client_credentials', 'refresh_token', DEVICE_GRANT]),
        code: t.optional(t.string()),
        redirect_uri: t.optional(t.string()),
        code_verifier: t.optional(t.string()),
        refresh_token: t.optional(t.string()),
        device_code: t.optional(t.string()),
        scope: t.optional(t.string()),
        allowed_tables: t.optional(t.string()),
        resource: t.optional(t.string()),
        ...credentials,
      }),
      answers: { 200: tokens },
      handle: async (call) => {
        refuseRepeated(call)
        const grantType = required(call.body as FormFields, 'grant_type')
        const { client, form } = await clientAndForm(db, call)
        return { ...json(200, await exchange(grants, grantType, client, form)), headers: NO_STORE }
      },
    }),

    route('POST /api/auth/revoke', {
      summary: 'End a token, or with a refresh token its whole grant',
      ...clientForm,
      requires,
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

    route('POST /api/oauth/introspect', {
      summary: "What one of the client's own tokens is (RFC 7662)",
      ...clientForm,
      requires,
      accepts: t.object({ token: t.string(), token_type_hint: t.optional(t.string()), ...credentials }),
      answers: { 200: introspection },
      handle: async (call) => {
        const { client, form } = await clientAndForm(db, call)
        // RFC 7662, section 2.1: the endpoint is for those who can say who they are.
        if (client.clientType === 'public') throw invalidClient()
        return { ...json(200, await deps.accessTokens.introspect(required(form, 'token'), client)), headers: NO_STORE }
      },
    }),

    route('POST /api/oauth/par', {
      summary: 'Push an authorization request; a request_uri stands for it (RFC 9126)',
      ...clientForm,
      requires,
      bodyLimit: 16_000,
      accepts: t.object({
        response_type: t.string(),
        redirect_uri: t.string(),
        scope: t.string(),
        code_challenge: t.string(),
        code_challenge_method: t.string(),
        state: t.optional(t.string()),
        nonce: t.optional(t.string()),
        ...credentials,
      }),
      answers: { 201: t.object({ request_uri: t.string(), expires_in: t.integer() }) },
      handle: async (call) => {
        const { client, form } = await clientAndForm(db, call)
        if (form['request_uri']) throw refuse('invalid_request', 'request_uri cannot be pushed')
        if (form['request']) throw refuse('request_not_supported', 'request objects are not supported')
        await deps.authorize.check({ client, request: requestOfQuery(form) })
        await deps.countPushed(call.ip)
        const pushed = await deps.pushed.keep(client, { ...form, client_id: client.clientId })
        return { ...json(201, { request_uri: pushed, expires_in: PUSHED_SECONDS }), headers: NO_STORE }
      },
    }),
  ]
}

function exchange(grants: Grants, grantType: string, client: Client, form: FormFields) {
  switch (grantType) {
    case 'authorization_code':
      return grants.redeemCode(client, form)
    case 'client_credentials':
      return grants.forClient(client, form)
    case 'refresh_token':
      return grants.refresh(client, form)
    case DEVICE_GRANT:
      return grants.redeemDeviceCode(client, form)
    default:
      throw refuse('unsupported_grant_type', 'grant_type is not one of this server')
  }
}
