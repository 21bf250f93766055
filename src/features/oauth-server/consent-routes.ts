import { unauthorized } from '../../core/errors.ts'
import { type Identity, ON_BEHALF, type UserIdentity } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Db } from '../../db/db.ts'
import { type Call, json, type Reply, type Route, route } from '../../http/route.ts'
import { termsOfBody } from './agent-terms.ts'
import { type AuthorizationRequest, requestOfBody } from './authorization-request.ts'
import type { Authorize, OpenRequest } from './authorize.ts'
import type { BrowserSessions } from './browser-sessions.ts'
import { errorBody, refuse, usedBefore } from './errors.ts'
import type { Grants } from './grants.ts'
import type { Prompts } from './prompts.ts'

type ConsentDeps = {
  db: Db
  grants: Grants
  authorize: Authorize
  browsers: BrowserSessions
  prompts: Prompts
  publicBaseUrl: () => string
  requires: () => void
}

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
  nonce: t.optional(t.string()),
  prompt: t.optional(t.string()),
  max_age: t.optional(t.string()),
})
const parameters = {
  response_type: t.string({ description: '`code`' }),
  client_id: t.string(),
  redirect_uri: t.string(),
  scope: t.string({
    description:
      'readonly, readwrite or *, and besides it storage:read, storage:write; openid, profile, email, offline_access beside it or alone',
  }),
  state: t.string(),
  code_challenge: t.string(),
  code_challenge_method: t.string({ description: '`S256`' }),
  resource: t.optional(t.string({ description: 'what the tokens are for (RFC 8707); left out: the API' })),
  nonce: t.optional(t.string({ description: 'comes back in the ID token' })),
  prompt: t.optional(t.string({ description: '`none`, or `login`, `consent`, `select_account`' })),
  max_age: t.optional(t.string({ description: 'seconds since the user signed in' })),
  login_hint: t.optional(t.string()),
  id_token_hint: t.optional(t.string()),
}
const terms = {
  auto: t.optional(t.integer({ minimum: 0, maximum: 100, description: 'rows an hour that need no second step' })),
  release: t.optional(t.boolean({ description: 'every write waits for the user' })),
  until: t.optional(t.time({ description: 'when the access ends' })),
}
const decision = t.oneOf(['approve', 'deny'])
export const NO_STORE = { 'Cache-Control': 'no-store', Pragma: 'no-cache' }

/** Of a prompt that a page showed: the request and the client it came from. */
export type ShownConsent = { clientId: string; request: AuthorizationRequest }

/** Consent by the bearer of a user, and by the cookie and the form token of the page. */
export function consentRoutes(deps: ConsentDeps): Route[] {
  const { grants, authorize, browsers, prompts, requires } = deps
  const back = (call: Call, request: AuthorizationRequest, answer: Readonly<Record<string, string>>) =>
    redirectBack(call, request, answer, deps.publicBaseUrl())

  return [
    route('GET /api/auth/authorize', {
      summary: 'Ask a user for consent, or send the code if it was given before',
      auth: 'user',
      requires,
      query: {
        ...parameters,
        allowed_tables: t.string({ description: 'comma list; absent = all' }),
        request_uri: t.string({ description: 'of a pushed request (RFC 9126), in place of all but client_id' }),
      },
      errorBody,
      answers: { 200: t.union(prompt, redirected), 302: null },
      handle: async (call) => {
        const user = requirePerson(call.who)
        refuseRepeated(call)
        const decided = await authorize.decide(call.query, user, 'bearer', call.ip)
        if (decided.kind === 'sign in') throw refuse('login_required', decided.why)
        if (decided.kind === 'redirect') return back(call, decided.request, decided.answer)
        return { ...json(200, promptOf(decided.open)), headers: NO_STORE }
      },
    }),

    route('POST /api/auth/authorize/consent', {
      summary: "Record the user's decision",
      auth: 'user',
      requires,
      accepts: t.object({ decision, ...parameters, allowed_tables: t.optional(t.array(t.string())), ...terms }),
      errorBody,
      answers: { 200: redirected, 302: null },
      handle: async (call) => {
        const user = requirePerson(call.who)
        const { fields, request } = requestOfBody(call.body)
        const client = await authorize.recheck(fields['client_id'], request, user, call.ip)
        const chosen = termsOfBody(call.body, request)
        if (isApproval(fields['decision'])) {
          return back(call, request, { code: await grants.consent(user, client, request, chosen) })
        }
        return back(call, request, DENIED)
      },
    }),

    route('POST /oauth/consent', {
      summary: 'The decision of a browser that is signed in by the cookie of the page',
      auth: 'none',
      bodyLimit: 10_000,
      requires,
      accepts: t.object({
        form_token: t.string({ description: 'of the page; good once' }),
        decision,
        scope: t.optional(t.oneOf(['readonly'], { description: 'an agent that asked for more may only read' })),
        ...terms,
      }),
      errorBody,
      answers: { 200: redirected },
      handle: async (call) => {
        const user = await browsers.userOf(call.headers['cookie'])
        if (!user) throw unauthorized('not authenticated')
        const body = (call.body ?? {}) as Readonly<Record<string, unknown>>
        const { shown, spend } = await prompts.read<ShownConsent>('consent', user, body['form_token'])
        const { clientId } = shown
        const request = narrowed(shown.request, body['scope'])
        const client = await authorize.recheck(clientId, request, user, call.ip)
        const chosen = termsOfBody(body, request)
        const answer = isApproval(body['decision'])
          ? { code: await grants.consent(user, client, request, chosen, spend) }
          : DENIED
        if (answer === DENIED && (await deps.db.run(ON_BEHALF, spend)) === 0) throw usedBefore()
        return redirectReply(addressBack(request, answer, deps.publicBaseUrl()), true)
      },
    }),

    route('POST /oauth/session', {
      summary: 'The cookie by which the pages of this server know the browser of the bearer',
      auth: 'user',
      bodyKind: 'none',
      requires,
      answers: { 204: null },
      handle: ({ who }) => ({
        status: 204,
        headers: { ...NO_STORE, 'Set-Cookie': browsers.cookieOf(requirePerson(who).sessionId) },
      }),
    }),
  ]
}

const DENIED = { error: 'access_denied', error_description: 'the user denied the request' }

function isApproval(given: unknown): boolean {
  if (given === 'approve' || given === 'deny') return given === 'approve'
  throw refuse('invalid_request', 'decision must be approve or deny')
}

/** The user may let an agent read alone, whatever it asked for. */
function narrowed(request: AuthorizationRequest, scope: unknown): AuthorizationRequest {
  if (scope === undefined) return request
  if (scope !== 'readonly' || request.resource === '')
    throw refuse('invalid_scope', 'scope can only be narrowed for agents')
  return { ...request, scope }
}

/** RFC 6749, section 4.1.2, with the issuer of RFC 9207. */
export function addressBack(
  { redirectUri, state }: AuthorizationRequest,
  answer: Readonly<Record<string, string>>,
  issuer: string,
): string {
  const target = new URL(redirectUri)
  for (const [name, value] of Object.entries({ ...answer, state, iss: issuer })) {
    if (name !== 'state' || value !== '') target.searchParams.set(name, value)
  }
  return target.href
}

/** As JSON for a script, which sees no redirect. */
export function redirectReply(address: string, isJson: boolean): Reply {
  const headers = { ...NO_STORE, 'Referrer-Policy': 'no-referrer' }
  if (isJson) return { ...json(200, { requires_consent: false, redirect_to: address }), headers }
  return { status: 302, headers: { ...headers, Location: address } }
}

const redirectBack = (
  { headers }: Call,
  request: AuthorizationRequest,
  answer: Readonly<Record<string, string>>,
  issuer: string,
): Reply => redirectReply(addressBack(request, answer, issuer), (headers['accept'] ?? '').includes('application/json'))

/** Only users with an account of their own can consent, not anonymous ones or keys. */
export function requirePerson(who: Identity): UserIdentity {
  if (who.kind !== 'user' || who.isAnonymous) throw unauthorized('not authenticated')
  return who
}

/** RFC 6749, section 3.1: parameters must not be repeated. */
export function refuseRepeated({ repeated }: Call): void {
  const [name] = repeated
  if (name !== undefined) throw refuse('invalid_request', `${name} is given more than once`)
}

/** What the user sees, and what a consent by bearer sends back. */
export const promptOf = ({ client, request }: Pick<OpenRequest, 'client' | 'request'>) => ({
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
  ...(request.nonce !== '' && { nonce: request.nonce }),
  ...(request.prompts.length > 0 && { prompt: request.prompts.join(' ') }),
  ...(request.maxAge !== undefined && { max_age: String(request.maxAge) }),
  ...(client.origin === 'document' && { client_host: new URL(client.clientId).host }),
})
